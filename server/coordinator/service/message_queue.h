#ifndef STRATA_SERVER_COORDINATOR_SERVICE_MESSAGE_QUEUE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_MESSAGE_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/limits/limits.h"

namespace strata::server {

// What is to be written to one stream. Bounded in messages and, where they have a size, in bytes: a
// peer that does not read loses its stream. Thread-safe.
template <typename T>
class MessageQueue {
 public:
  explicit MessageQueue(size_t capacity, size_t bytes_max = kQueuedBytesMax)
      : capacity_(capacity), bytes_max_(bytes_max) {}

  // Does nothing after Close. A full queue closes and drops what it holds.
  void Push(T message) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    const size_t bytes = CountBytes(message);
    if (messages_.size() < capacity_ && (bytes_ == 0 || bytes_ + bytes <= bytes_max_)) {
      bytes_ += bytes;
      messages_.push_back(std::move(message));
    } else {
      messages_.clear();
      bytes_ = 0;
      closed_ = true;
    }
  }

  // Returns the next message and waits for one up to `timeout`. Returns nothing when time is up or
  // IsDone.
  std::optional<T> Pop(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &MessageQueue::HasNews), timeout);
    if (messages_.empty()) return std::nullopt;
    T message = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= CountBytes(message);
    return message;
  }

  // Ends the queue; what is queued can still be taken.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  // Returns whether the queue is closed and all has been taken.
  bool IsDone() {
    absl::MutexLock lock(&mutex_);
    return closed_ && messages_.empty();
  }

 private:
  static size_t CountBytes(const T& message) {
    if constexpr (requires { message.ByteSizeLong(); }) return message.ByteSizeLong();
    return 0;
  }
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !messages_.empty();
  }

  const size_t capacity_;
  const size_t bytes_max_;
  absl::Mutex mutex_;
  std::deque<T> messages_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_MESSAGE_QUEUE_H_
