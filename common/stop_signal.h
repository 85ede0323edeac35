#ifndef STRATA_COMMON_STOP_SIGNAL_H_
#define STRATA_COMMON_STOP_SIGNAL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata {

// SIGTERM and SIGINT as something to poll for, instead of handlers. Blocks both signals in the
// calling thread, so Create comes in main before other threads start; threads and child processes
// inherit the block.
class StopSignal {
  struct Passkey {
    explicit Passkey() = default;
  };

 public:
  // Errors: ResourceExhausted (no descriptors left).
  static absl::StatusOr<std::unique_ptr<StopSignal>> Create();

  // Use Create.
  StopSignal(Passkey, UniqueFd fd) : fd_(std::move(fd)) {}

  // Readable when a signal has come.
  int fd() const { return fd_.get(); }

  // The signal that has come, or 0.
  int TryReceive();
  // Waits for a signal; 0: none came within `timeout`.
  int Wait(absl::Duration timeout);

  // For a child between fork and exec: unblocks what Create blocked, so that the new program can be
  // stopped. Async-signal-safe.
  static void UnblockInChild();

 private:
  UniqueFd fd_;
};

}  // namespace strata

#endif  // STRATA_COMMON_STOP_SIGNAL_H_
