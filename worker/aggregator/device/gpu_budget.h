#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_GPU_BUDGET_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_GPU_BUDGET_H_

#include <cstdint>
#include <map>
#include <vector>

#include "common/os/memory_ledger.h"
#include "proto/record.pb.h"

namespace strata::worker {

// The maximum memory of each of a node's GPUs, by index, that a job with device: GPU takes for the
// exchange. `gpus`: of the node's g ranks, in order. With r of them on a GPU, d GPUs, an arena of A
// bytes, which is the model's M rounded up to 2 MiB, and chunks of C bytes:
//
//   weights                 A
//   gradients               r x A
//   encoded weights         C: received ones, before they are decoded; and a verdict
//   gradients of others     (g - r) x C: if its kernels cannot access other GPUs' memory; with
//                           node_sum: NCCL the ranks' verdicts instead
//
// if pushes are encoded on the GPUs, for the chunks whose turn is this one's:
//
//   not sent                M / d, for DGC 2 x M / d
//   encoded sums            2 x the largest encoding of C
//   work space              for TOP_K and DGC: 128 KiB
//
// and with exchange: NCCL, and an optimizer with V state vectors, instead of all that:
//
//   of ranks                r x (2 + V) x M: weights, gradients, optimizer state; and verdicts
//   sums                    r x M: with on_loss: DROP
//
// Not counted: memory that ranks compute with, that NCCL takes for itself, and that each process
// takes of a GPU before it allocates any. With exchange: NONE nothing is.
//
// `placement` may be empty while it is unknown; then nothing depends on C either.
std::map<uint32_t, MemoryFormula> MemoryByGpu(const proto::Job& job, uint64_t elements,
                                              const std::vector<uint32_t>& gpus,
                                              const proto::Placement& placement);

// The need of this many GPUs together, part by part.
MemoryFormula MemoryOfGpus(const proto::Job& job, uint64_t elements, uint32_t gpus,
                           uint32_t local_ranks, const proto::Placement& placement);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_GPU_BUDGET_H_
