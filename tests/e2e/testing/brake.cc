#include "tests/e2e/testing/brake.h"

#include <signal.h>

namespace strata::tests {
namespace {

// Time for about one step of a small job.
constexpr absl::Duration kMoment = absl::Milliseconds(5);

}  // namespace

Brake::Brake(int pid, absl::Duration still) : thread_([this, pid, still] { Run(pid, still); }) {}

Brake::~Brake() {
  released_.Notify();
  thread_.join();
}

void Brake::Run(int pid, absl::Duration still) {
  do {
    // A process that has ended meanwhile is not missed: its job's end tells.
    kill(pid, SIGSTOP);
    released_.WaitForNotificationWithTimeout(still);
    kill(pid, SIGCONT);
  } while (!released_.WaitForNotificationWithTimeout(kMoment));
}

}  // namespace strata::tests
