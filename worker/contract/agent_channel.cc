#include "worker/contract/agent_channel.h"

#include <poll.h>

#include <utility>

#include "common/diverged.h"

namespace strata::client {
namespace {

constexpr int kLookMs = 100;  // interval of checks whether the wait is still wanted

}  // namespace

AgentChannel::AgentChannel(int channel_fd) {
  if (channel_fd > 0) channel_ = std::make_unique<FramedChannel>(UniqueFd(channel_fd));
}

absl::Status AgentChannel::Send(const proto::ChildMessage& message) {
  if (!channel_) return absl::OkStatus();
  if (channel_->Send(message).ok()) return absl::OkStatus();
  return absl::UnavailableError("the worker daemon is gone");
}

// Writable means that most of the socket's buffer is free.
bool AgentChannel::HasRoom() const {
  pollfd look{channel_->fd(), POLLOUT, 0};
  return poll(&look, 1, 0) > 0 && (look.revents & POLLOUT) != 0;
}

void AgentChannel::SendUnlessFull(const proto::ChildMessage& message) {
  if (channel_ && HasRoom()) Send(message).IgnoreError();
}

void AgentChannel::SendTrace(TraceLog* log, bool all) {
  if (!channel_ || log == nullptr) return;
  while (log->has_news() && (all || HasRoom())) {
    proto::ChildMessage message;
    *message.mutable_trace() = log->TakeBatch();
    if (!Send(message).ok()) return;
  }
}

void AgentChannel::SendFailed(const absl::Status& why, std::optional<uint32_t> lost) {
  proto::ChildMessage message;
  const std::string reason(why.message());
  if (lost) {
    message.mutable_lost()->set_local_rank(*lost);
    message.mutable_lost()->set_text(reason);
  } else {
    message.set_failed(reason);
    message.set_has_diverged(HasDiverged(why));
  }
  Send(message).IgnoreError();
}

void AgentChannel::SendDamaged(const std::string& damage) {
  proto::ChildMessage message;
  message.set_damaged(damage);
  Send(message).IgnoreError();
}

absl::StatusOr<std::optional<proto::AgentMessage>> AgentChannel::TryReceive() {
  if (!channel_) return absl::FailedPreconditionError("no worker daemon to wait for");
  proto::AgentMessage message;
  absl::StatusOr<bool> received = channel_->TryReceive(&message);
  if (!received.ok()) return absl::UnavailableError("the worker daemon is gone");
  if (!*received) return std::optional<proto::AgentMessage>();
  return std::optional<proto::AgentMessage>(std::move(message));
}

absl::StatusOr<proto::RunNode> AgentChannel::AwaitRun(
    const std::function<absl::Status()>& still_wanted) {
  while (true) {
    absl::StatusOr<std::optional<proto::AgentMessage>> message = TryReceive();
    if (!message.ok()) return message.status();
    if (message->has_value() && (*message)->has_run()) return std::move(*(*message)->mutable_run());
    if (message->has_value()) continue;
    if (absl::Status wanted = still_wanted ? still_wanted() : absl::OkStatus(); !wanted.ok()) {
      return wanted;
    }
    pollfd wait{channel_->fd(), POLLIN, 0};
    poll(&wait, 1, kLookMs);
  }
}

}  // namespace strata::client
