#ifndef STRATA_TESTS_E2E_TESTING_BRAKE_H_
#define STRATA_TESTS_E2E_TESTING_BRAKE_H_

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::tests {

// Slows a process down: it stands still for a while, runs for a moment, and so on. A test whose job
// must outlast what it does brakes a rank, and takes the brake off when it has seen enough.
class Brake {
 public:
  Brake(int pid, absl::Duration still);
  ~Brake();

 private:
  void Run(absl::Duration still);
  void Send(int signal);

  const UniqueFd process_;
  absl::Notification released_;
  std::thread thread_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_BRAKE_H_
