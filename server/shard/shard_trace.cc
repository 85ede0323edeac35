#include "server/shard/shard_trace.h"

namespace strata::server {

using proto::TraceEvent;

void ShardTrace::OnArrival() {
  if (log_ != nullptr) arrived_at_ = log_->Now();
}

void ShardTrace::OnPush(NodeId node, ChunkId chunk, uint64_t clock) {
  if (Wants(clock)) came_at_[{node, chunk}] = arrived_at_;
}

void ShardTrace::OnApplied(NodeId node, ChunkId chunk, uint64_t clock) {
  if (!Wants(clock)) return;
  log_->Note(TraceEvent::APPLY, chunk, log_->StepOf(clock), arrived_at_, log_->Now(), node.value());
}

void ShardTrace::OnDue(NodeId node, ChunkId chunk, uint64_t clock) {
  if (!Wants(clock)) return;
  const auto came = came_at_.find({node, chunk});
  if (came == came_at_.end()) return;
  log_->Note(TraceEvent::SERVER_WAIT, chunk, log_->StepOf(clock), came->second, arrived_at_,
             node.value());
  came_at_.erase(came);
}

}  // namespace strata::server
