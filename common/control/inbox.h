#ifndef STRATA_COMMON_CONTROL_INBOX_H_
#define STRATA_COMMON_CONTROL_INBOX_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/limits/limits.h"
#include "proto/control.pb.h"

namespace strata::control {

// What the coordinator has said on one line and the daemon has not got to yet, in order. Bounded:
// who adds waits for HasRoom. One owner.
class Inbox {
 public:
  bool HasRoom() const { return messages_.size() < kQueuedMessagesMax && bytes_ < kQueuedBytesMax; }
  void Add(proto::CoordinatorMessage message) {
    const size_t bytes = message.ByteSizeLong();
    bytes_ += bytes;
    message_bytes_max_ = std::max(message_bytes_max_, bytes);
    messages_.push_back(std::move(message));
  }
  std::optional<proto::CoordinatorMessage> Pop() {
    if (messages_.empty()) return std::nullopt;
    proto::CoordinatorMessage message = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= message.ByteSizeLong();
    return message;
  }
  void Clear() {
    messages_.clear();
    bytes_ = 0;
  }

  bool empty() const { return messages_.empty(); }
  size_t messages() const { return messages_.size(); }
  size_t bytes() const { return bytes_; }
  // Bytes of the largest message so far.
  size_t message_bytes_max() const { return message_bytes_max_; }

 private:
  std::deque<proto::CoordinatorMessage> messages_;
  size_t bytes_ = 0;
  size_t message_bytes_max_ = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_INBOX_H_
