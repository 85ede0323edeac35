#ifndef STRATA_WORKER_AGGREGATOR_RANKS_RING_H_
#define STRATA_WORKER_AGGREGATOR_RANKS_RING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/exchange/ring_forming.h"
#include "proto/processes.pb.h"
#include "worker/aggregator/host/rank_group.h"
#include "worker/contract/node_memory.h"

namespace strata::worker {

// A node's part in a ring whose members are ranks (exchange: NCCL), of a job that goes on without
// nodes that die: has them stop, gathers how far each has come, and tells them of the next ring.
//
// Threads: one.
class RanksRing {
 public:
  // What the node's ranks have answered together.
  struct Answer {
    StoppedRing ring;
    std::string nccl_id;  // of the first one; empty: it has left
  };

  // Of `node`, one of the job's `view`. The other two outlive it.
  RanksRing(const proto::View& view, NodeId node, NodeMemory* memory, RankGroup* ranks)
      : view_(view), node_(node), memory_(memory), ranks_(ranks) {}

  // Has ranks stop for a ring with this number; a lower one than before changes nothing. Those that
  // have left know that all ranks of the job have made all steps.
  void Stop(uint32_t number);
  // How far they are; none: some have not stopped yet. Errors: FailedPrecondition: a rank does not
  // have the first weights.
  absl::StatusOr<std::optional<Answer>> Gather() const;
  // Tells those of it that have not left. Errors: InvalidArgument: the job does not have the ring's
  // nodes, or this one is not among them.
  absl::Status Form(const proto::FormRing& forming);

 private:
  const proto::View view_;
  const NodeId node_;
  NodeMemory* const memory_;
  RankGroup* const ranks_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_RANKS_RING_H_
