#include "common/stop_signal.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace strata {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StopSignal>> StopSignal::Create() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return absl::ResourceExhaustedError(absl::StrFormat("signalfd: %s", strerror(errno)));
  }
  return std::make_unique<StopSignal>(Passkey(), std::move(fd));
}

int StopSignal::TryReceive() {
  signalfd_siginfo info;
  return read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

int StopSignal::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    if (const int signal = TryReceive(); signal != 0) return signal;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return 0;
    pollfd item = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    poll(&item, 1,
         static_cast<int>(
             absl::ToInt64Milliseconds(std::min(left + absl::Milliseconds(1), absl::Hours(1)))));
  }
}

void StopSignal::UnblockInChild() {
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace strata
