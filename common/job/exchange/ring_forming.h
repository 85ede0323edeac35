#ifndef STRATA_COMMON_JOB_EXCHANGE_RING_FORMING_H_
#define STRATA_COMMON_JOB_EXCHANGE_RING_FORMING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/processes.pb.h"

namespace strata {

// A node of an all-reduce that has stopped, to go on without nodes that have died (Job.on_loss).
struct StoppedRing {
  uint64_t clock = 0;    // steps that it has made
  bool is_over = false;  // it knows that all nodes have made all steps
};

// Returns the record of the job's all-reduce as `forming` has it: its nodes alone, and its number
// as the view's, which every HELLO says. Errors: InvalidArgument: the record lacks one of the
// nodes, there are none, or `node` is not among them.
absl::StatusOr<proto::JobRecord> WithRing(const proto::JobRecord& record,
                                          const proto::FormRing& forming, NodeId node);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_RING_FORMING_H_
