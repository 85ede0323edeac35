#include "common/os/event_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/time/clock.h"
#include "common/os/limits.h"

namespace strata {
namespace {

void Ring(int fd) {
  uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake anyway.
  [[maybe_unused]] ssize_t written = write(fd, &one, sizeof(one));
}

}  // namespace

EventLoop::EventLoop() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

EventLoop::~EventLoop() { close(wake_fd_); }

void EventLoop::Post(std::function<void()> closure) {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &EventLoop::HasRoom));
    posted_.push_back(std::move(closure));
  }
  Ring(wake_fd_);
}

// Otherwise a loop that does not run would block everybody.
bool EventLoop::HasRoom() const {
  return posted_.size() < kQueuedMessagesMax || thread_ == std::thread::id() ||
         thread_ == std::this_thread::get_id();
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  Ring(wake_fd_);
}

void EventLoop::After(absl::Duration delay, std::function<void()> closure) {
  timers_.emplace(absl::Now() + delay, std::move(closure));
}

void EventLoop::Watch(int fd, short events, std::function<void(short)> ready) {
  watched_[fd] = Watched{events, std::move(ready)};
}

void EventLoop::Unwatch(int fd) { watched_.erase(fd); }

void EventLoop::RunPosted() {
  std::vector<std::function<void()>> posted;
  {
    absl::MutexLock lock(&mutex_);
    posted.swap(posted_);
  }
  for (auto& closure : posted) closure();
}

void EventLoop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first <= absl::Now()) {
    auto closure = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    closure();
  }
}

int EventLoop::PollTimeoutMs() const {
  if (timers_.empty()) return -1;
  absl::Duration left = timers_.begin()->first - absl::Now();
  int64_t ms = absl::ToInt64Milliseconds(left) + 1;  // rounded up: never early
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
}

void EventLoop::Run() {
  std::vector<pollfd> fds;
  {
    absl::MutexLock lock(&mutex_);
    thread_ = std::this_thread::get_id();
  }
  while (true) {
    RunPosted();
    RunTimers();
    {
      absl::MutexLock lock(&mutex_);
      if (stop_ && posted_.empty()) {
        thread_ = std::thread::id();
        return;
      }
    }
    fds.assign(1, pollfd{wake_fd_, POLLIN, 0});
    for (const auto& [fd, watched] : watched_) fds.push_back(pollfd{fd, watched.events, 0});
    if (poll(fds.data(), fds.size(), PollTimeoutMs()) <= 0) continue;
    if (fds[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] ssize_t got = read(wake_fd_, &count, sizeof(count));
    }
    for (size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      // An earlier callback may have unwatched this one.
      auto found = watched_.find(fds[i].fd);
      if (found == watched_.end()) continue;
      auto ready = found->second.ready;
      ready(fds[i].revents);
    }
  }
}

}  // namespace strata
