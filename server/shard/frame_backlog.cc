#include "server/shard/frame_backlog.h"

#include "absl/status/status.h"

namespace strata::server {

FrameBacklog::Result FrameBacklog::Send(transport::ConnectionId connection,
                                        const wire::Frame& frame) {
  auto waiting = waiting_.find(connection);
  const bool is_first = waiting == waiting_.end();
  if (is_first) {
    if (!absl::IsResourceExhausted(endpoint_->Send(connection, frame))) return Result::kSent;
    waiting = waiting_.try_emplace(connection).first;
  }
  if (waiting->second.size() >= frames_max_) return Result::kDropped;
  waiting->second.push_back(frame);
  return is_first ? Result::kFull : Result::kWaits;
}

void FrameBacklog::SendWaiting() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::deque<wire::Frame>& frames = it->second;
    while (!frames.empty() &&
           !absl::IsResourceExhausted(endpoint_->Send(it->first, frames.front()))) {
      frames.pop_front();
    }
    const auto current = it++;
    if (frames.empty()) waiting_.erase(current);
  }
}

}  // namespace strata::server
