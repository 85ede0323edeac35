#include "tests/e2e/testing/brake.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace strata::tests {
namespace {

// Time for about one step of a small job.
constexpr absl::Duration kMoment = absl::Milliseconds(5);

}  // namespace

// A descriptor, as a number may be another process's later.
Brake::Brake(int pid, absl::Duration still)
    : process_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
      thread_([this, still] { Run(still); }) {}

Brake::~Brake() {
  released_.Notify();
  thread_.join();
}

void Brake::Send(int signal) { syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0); }

void Brake::Run(absl::Duration still) {
  do {
    // A process that has ended meanwhile is not missed: its job's end tells.
    Send(SIGSTOP);
    released_.WaitForNotificationWithTimeout(still);
    Send(SIGCONT);
  } while (!released_.WaitForNotificationWithTimeout(kMoment));
}

}  // namespace strata::tests
