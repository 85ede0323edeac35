#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ADMISSION_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/os/limits.h"
#include "proto/control.pb.h"

namespace strata::server {

// Limits how many of one kind may be open at once; further ones are refused and counted.
// Thread-safe.
class Gate {
 public:
  // An open one; it counts until it is destroyed.
  class Pass {
   public:
    explicit Pass(Gate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }

   private:
    Gate* gate_;
  };

  // `what` names the kind, `option` its flag: "sessions of daemons", "--sessions".
  Gate(std::string what, std::string option, uint32_t open_max)
      : what_(std::move(what)), option_(std::move(option)), open_max_(open_max) {}

  // Errors: ResourceExhausted, which names the limit and `who`.
  absl::StatusOr<Pass> Enter(const std::string& who);

  uint32_t open();
  uint32_t open_max() const { return open_max_; }
  uint64_t refused();

 private:
  void Leave();

  const std::string what_;
  const std::string option_;
  const uint32_t open_max_;
  absl::Mutex mutex_;
  uint32_t open_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Messages of one session that the coordinator's loop has not processed. Thread-safe.
class InHand {
 public:
  // Counts one more; waits while kInHandPerSessionMax are pending.
  void Add();
  void Done();

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return count_ < kInHandPerSessionMax;
  }
  absl::Mutex mutex_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns the coordinator's own resources and refusals, as ListNodes shows them.
proto::DaemonStatus CoordinatorStatus(Gate* sessions, Gate* calls);

// Messages to write to one stream. Bounded in messages and, if they have a size, in bytes: a peer
// that does not read loses its stream. Thread-safe.
template <typename T>
class MessageQueue {
 public:
  explicit MessageQueue(size_t capacity, size_t bytes_max = kQueuedBytesMax)
      : capacity_(capacity), bytes_max_(bytes_max) {}

  // Does nothing after Close. A full queue closes and drops its content.
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

  // Returns the next message, waiting up to `timeout`; nullopt on timeout or if IsDone.
  std::optional<T> Pop(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &MessageQueue::HasNews), timeout);
    if (messages_.empty()) return std::nullopt;
    T message = std::move(messages_.front());
    messages_.pop_front();
    bytes_ -= CountBytes(message);
    return message;
  }

  // Ends the queue; queued messages can still be taken.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  // Returns whether the queue is closed and empty.
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

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ADMISSION_H_
