#ifndef STRATA_WORKER_AGGREGATOR_CORE_NODE_BUDGET_H_
#define STRATA_WORKER_AGGREGATOR_CORE_NODE_BUDGET_H_

#include <cstdint>

#include "common/os/memory_ledger.h"
#include "proto/record.pb.h"

namespace strata::worker {

// The maximum of a node's memory that a job takes for the exchange, with g ranks, an arena of M
// bytes, S shards, window W and chunks of C bytes:
//
//   shared memory   (1 + g) x M: weights and each rank's gradients; and the counts beside them
//   first weights   g x M: each rank's own, until training begins
//   messages        2 x S x W x C: sums and answers in flight; at most 2 x M
//
//   not sent        if pushes are encoded: M, for DGC 2 x M
//   work space      for TOP_K and DGC: 4 x C
//   local steps     (2 + V) x M: the node's own weights, the base of its change, and the
//   optimizer's
//                   state; and C for the chunk that is being updated. With significance M more:
//                   what
//                   was not pushed
//   second buffer   for double buffering 2 x M: sums that wait for the previous answer, and answers
//                   that wait for the ranks
//   trace           if the job is traced: the aggregator's
//   rows            with tables: 4 MiB for what each rank asks, and (2 + 2 x g) x B for a step's
//                   gradients, rows.bytes_per_step being B
//
// Memory that the ranks compute with (activations, data) is theirs and not counted.
//
// With exchange: RING, of n nodes and an optimizer with V state vectors, instead of messages:
//
//   own slices      (1 + V) x M / n: weights and optimizer state; one more if they are encoded
//   under way       4 x W x C: chunks' sums, incoming and outgoing data; at most 4 x M
//   new ring        if lost nodes are dropped 2 x M: sums and means of the current step, and the
//                   means of the previous one until those come
//
// With device: GPU, data on GPUs is not part of this memory (gpu_budget.h). The node's memory is
// then
//
//   shared memory   M: the first weights; and the counts
//   first weights   g x M, as above
//   pinned memory   2 x M: sums from their copy to the host until they are answered, and answers
//                   until they are copied to the GPUs
//   answers         S x W x C: in flight; at most M
//
// and with exchange: NCCL only the first two. What was not sent is on the GPU if pushes are encoded
// there.
//
// `placement` may be empty while it is unknown; then there are no messages either.
MemoryFormula NodeMemoryNeed(const proto::Job& job, uint32_t nodes, uint64_t elements,
                             uint32_t local_ranks, const proto::Placement& placement);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_NODE_BUDGET_H_
