#include "common/os/stop_request.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <initializer_list>

namespace strata {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Blocks the signals for this thread and those that it starts. Returns a descriptor to read them.
int Take(const sigset_t& signals) {
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

StopRequest::StopRequest() : raised_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  // nohup ignores it, and a blocked signal would be delivered all the same.
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  signal_fd_ = Take(signals);
}

StopRequest::~StopRequest() {
  close(signal_fd_);
  close(raised_fd_);
}

absl::Status StopRequest::Wait() {
  while (true) {
    pollfd fds[2] = {{signal_fd_, POLLIN, 0}, {raised_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) <= 0) continue;
    if (fds[1].revents != 0) {
      absl::MutexLock lock(&mutex_);
      return status_;
    }
    return absl::OkStatus();
  }
}

bool StopRequest::WaitForMore(absl::Duration timeout) {
  const auto take = [this] {
    signalfd_siginfo signal;
    return read(signal_fd_, &signal, sizeof(signal)) == sizeof(signal);
  };
  if (!took_first_) take();
  took_first_ = true;
  pollfd fds[2] = {{signal_fd_, POLLIN, 0}, {raised_fd_, POLLIN, 0}};
  if (poll(fds, 2, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) return false;
  return fds[1].revents != 0 || take();
}

absl::Status StopRequest::raised() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void StopRequest::Raise(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (raised_) return;
    raised_ = true;
    status_ = status;
  }
  eventfd_write(raised_fd_, 1);
}

PassedSignals::PassedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGUSR1, SIGUSR2}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  fd_ = Take(signals);
}

PassedSignals::~PassedSignals() { close(fd_); }

std::optional<int> PassedSignals::Next() {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace strata
