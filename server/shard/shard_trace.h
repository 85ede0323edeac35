#ifndef STRATA_SERVER_SHARD_SHARD_TRACE_H_
#define STRATA_SERVER_SHARD_SHARD_TRACE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/job/trace_log.h"

namespace strata::server {

// Records a shard's part of a job's trace: how long each push waits for its clock to complete, the
// time to complete and apply it, and its answer.
//
// Threads: one. If `log` is null, nothing is recorded.
class ShardTrace {
 public:
  explicit ShardTrace(std::unique_ptr<TraceLog> log) : log_(std::move(log)) {}

  TraceLog* log() const { return log_.get(); }

  // Something arrived that may make answers due.
  void OnArrival();
  // The frame that arrived is a new push.
  void OnPush(NodeId node, ChunkId chunk, uint64_t clock);
  // The push was accepted, and the weights changed.
  void OnApplied(NodeId node, ChunkId chunk, uint64_t clock);
  // A push is about to be answered, for the first time.
  void OnDue(NodeId node, ChunkId chunk, uint64_t clock);

 private:
  bool Wants(uint64_t clock) const { return log_ != nullptr && log_->Wants(log_->StepOf(clock)); }

  const std::unique_ptr<TraceLog> log_;
  absl::Time arrived_at_;  // arrival of the current frame
  // Arrival times of unanswered pushes; a node has one per chunk.
  absl::flat_hash_map<std::pair<NodeId, ChunkId>, absl::Time> came_at_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_TRACE_H_
