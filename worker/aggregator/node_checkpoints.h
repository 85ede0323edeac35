#ifndef STRATA_WORKER_AGGREGATOR_NODE_CHECKPOINTS_H_
#define STRATA_WORKER_AGGREGATOR_NODE_CHECKPOINTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/part_writer.h"
#include "common/checkpoint/store.h"
#include "proto/processes.pb.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// Returns whether the nodes of the job write objects of its checkpoints.
bool NodesWriteCheckpoints(const proto::Job& job);

// Reads the state that a node resumes from: its own, and in a ring the slices of all nodes. Null:
// the checkpoint has nothing for nodes. Errors: the store's; if IsDamage holds for one, another
// checkpoint may be usable.
absl::StatusOr<std::shared_ptr<const NodeResume>> LoadNodeResume(const proto::JobRecord& record,
                                                                 uint32_t node,
                                                                 const StoreOpener& open);

// Writes one node's objects of its job's checkpoints, on a thread of its own.
//
// Threads: one.
class NodeCheckpoints {
 public:
  // The record is complete; NodesWriteCheckpoints.
  NodeCheckpoints(const proto::JobRecord& record, uint32_t node, const StoreOpener& open);

  // Takes the exchange's cuts, and releases those that are written.
  void Take(ExchangeCore* exchange);
  // Returns what has been written since, or could not be, for the coordinator.
  std::vector<proto::CheckpointPart> TakeParts();
  // No cut comes any more: waits until all are written, or for `timeout`.
  void Finish(absl::Duration timeout);

 private:
  void Write(PartKind kind, NodeCuts::Kind cut_kind, uint64_t clock, std::string problem,
             std::function<ImageFile()> make);

  const uint32_t node_;
  const uint64_t steps_per_clock_;
  absl::Mutex mutex_;
  std::vector<proto::CheckpointPart> parts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<NodeCuts::Kind, uint64_t>> let_go_ ABSL_GUARDED_BY(mutex_);
  PartWriter writer_;  // last member: its thread ends first
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_NODE_CHECKPOINTS_H_
