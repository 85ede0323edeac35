#include "common/control/outbox.h"

#include <algorithm>
#include <utility>

#include "common/limits/limits.h"

namespace strata::control {
namespace {

// Longer than a break can go unnoticed.
constexpr absl::Duration kResendAge = absl::Seconds(12);
constexpr size_t kResendMax = 4096;

}  // namespace

bool Outbox::Add(proto::DaemonMessage message) {
  const size_t bytes = message.ByteSizeLong();
  if (waiting_.size() >= kQueuedMessagesMax || waiting_bytes_ + bytes > kQueuedBytesMax) {
    return false;
  }
  message_bytes_max_ = std::max(message_bytes_max_, bytes);
  waiting_bytes_ += bytes;
  waiting_.push_back(std::move(message));
  return true;
}

const proto::DaemonMessage* Outbox::Next() const {
  return waiting_.empty() ? nullptr : &waiting_.front();
}

void Outbox::MarkSent(absl::Time now) {
  waiting_bytes_ -= waiting_.front().ByteSizeLong();
  sent_.push_back({now, std::move(waiting_.front())});
  waiting_.pop_front();
  while (sent_.size() > kResendMax || sent_.front().at < now - kResendAge) sent_.pop_front();
}

void Outbox::OnBroken(absl::Time now) {
  for (; !sent_.empty(); sent_.pop_back()) {
    if (sent_.back().at < now - kResendAge) continue;
    waiting_bytes_ += sent_.back().message.ByteSizeLong();
    waiting_.push_front(std::move(sent_.back().message));
  }
}

}  // namespace strata::control
