#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ADMISSION_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ADMISSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/limits/limits.h"
#include "proto/control.pb.h"

namespace strata::server {

// How many of one kind may be open at once; further ones are refused and counted. Thread-safe.
class Gate {
 public:
  // Something open, which counts until it is destroyed.
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

  // `what` and `option` name it: "sessions of daemons", "--sessions".
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

// What one session has handed to the coordinator's loop and the loop has not got to. Thread-safe.
class InHand {
 public:
  // Counts one more; waits while kInHandPerSessionMax are in hand.
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

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ADMISSION_H_
