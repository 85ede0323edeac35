#include "common/control/outbox.h"

#include <algorithm>
#include <utility>

#include "common/os/limits.h"
#include "common/require.h"

namespace strata::control {
namespace {

// Longer than a break can go unnoticed.
constexpr absl::Duration kResendAge = absl::Seconds(12);

}  // namespace

bool Outbox::Add(proto::DaemonMessage message) {
  const size_t bytes = message.ByteSizeLong();
  const size_t fresh = waiting_.size() - repeated_;
  if (fresh >= kQueuedMessagesMax || fresh_bytes_ + bytes > kQueuedBytesMax) return false;
  message_bytes_max_ = std::max(message_bytes_max_, bytes);
  fresh_bytes_ += bytes;
  waiting_.push_back(std::move(message));
  return true;
}

const proto::DaemonMessage* Outbox::Next() const {
  return waiting_.empty() ? nullptr : &waiting_.front();
}

void Outbox::MarkSent(absl::Time now) {
  STRATA_REQUIRE(!waiting_.empty());
  const size_t bytes = waiting_.front().ByteSizeLong();
  (repeated_ > 0 ? repeated_bytes_ : fresh_bytes_) -= bytes;
  if (repeated_ > 0) --repeated_;
  sent_.push_back({now, std::move(waiting_.front())});
  sent_bytes_ += bytes;
  waiting_.pop_front();
  while (sent_.size() > kQueuedMessagesMax || sent_bytes_ > kQueuedBytesMax ||
         sent_.front().at < now - kResendAge) {
    sent_bytes_ -= sent_.front().message.ByteSizeLong();
    sent_.pop_front();
  }
}

void Outbox::OnBroken(absl::Time now) {
  for (; !sent_.empty(); sent_.pop_back()) {
    if (sent_.back().at < now - kResendAge) continue;
    ++repeated_;
    repeated_bytes_ += sent_.back().message.ByteSizeLong();
    waiting_.push_front(std::move(sent_.back().message));
  }
  sent_bytes_ = 0;
  DropAnswers();
}

void Outbox::DropAnswers() {
  std::deque<proto::DaemonMessage> kept;
  size_t kept_repeated = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const bool is_repeated = i < repeated_;
    if (waiting_[i].has_peers_tried()) {
      (is_repeated ? repeated_bytes_ : fresh_bytes_) -= waiting_[i].ByteSizeLong();
      continue;
    }
    if (is_repeated) ++kept_repeated;
    kept.push_back(std::move(waiting_[i]));
  }
  waiting_ = std::move(kept);
  repeated_ = kept_repeated;
}

}  // namespace strata::control
