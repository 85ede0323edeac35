#include "cli/options/interrupt.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace strata::cli {
namespace {

constexpr int kExitSignal = 128;

}  // namespace

Interrupt::Interrupt() : thread_([this] { Wait(); }) {}

Interrupt::~Interrupt() {
  request_.Raise(absl::OkStatus());
  thread_.join();
}

void Interrupt::Catch(std::function<void()> on_signal) {
  absl::MutexLock lock(&mutex_);
  on_signal_ = std::move(on_signal);
}

int Interrupt::exit_status() {
  absl::MutexLock lock(&mutex_);
  return kExitSignal + signal_;
}

void Interrupt::Wait() {
  request_.Wait().IgnoreError();
  signalfd_siginfo info;
  if (read(request_.signal_fd(), &info, sizeof(info)) != sizeof(info)) return;  // it is over
  absl::MutexLock lock(&mutex_);
  signal_ = static_cast<int>(info.ssi_signo);
  if (on_signal_ == nullptr) std::_Exit(kExitSignal + signal_);
  on_signal_();
}

}  // namespace strata::cli
