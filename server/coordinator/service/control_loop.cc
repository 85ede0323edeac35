#include "server/coordinator/service/control_loop.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace strata::server {

ControlLoop::ControlLoop(std::function<void()> tick, absl::Duration period)
    : tick_(std::move(tick)), period_(period), queue_([this] {
        absl::MutexLock lock(&mutex_);
        woken_ = true;
      }) {}

void ControlLoop::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void ControlLoop::Stop() {
  queue_.Close();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    woken_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status ControlLoop::Run(const std::function<void()>& closure) {
  absl::Notification done;
  const absl::Status posted = queue_.Post([&] {
    closure();
    done.Notify();
  });
  if (posted.ok()) done.WaitForNotification();
  return posted;
}

void ControlLoop::Loop() {
  absl::Time next_tick = absl::Now();
  while (true) {
    bool stopping;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithDeadline(absl::Condition(&woken_), next_tick);
      woken_ = false;
      stopping = stopping_;
    }
    queue_.RunAll();
    if (stopping) return;
    if (absl::Now() < next_tick) continue;
    tick_();
    next_tick = absl::Now() + period_;
  }
}

}  // namespace strata::server
