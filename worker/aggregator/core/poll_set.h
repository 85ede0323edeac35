#ifndef STRATA_WORKER_AGGREGATOR_CORE_POLL_SET_H_
#define STRATA_WORKER_AGGREGATOR_CORE_POLL_SET_H_

#include <sys/epoll.h>

#include <vector>

#include "common/unique_fd.h"

namespace strata::worker {

// Descriptors to read from, behind one that is readable when any of them is: so that a loop which
// can wait at one descriptor waits at all. Threads: one.
class PollSet {
 public:
  PollSet() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}

  int fd() const { return fd_.get(); }
  // Until the descriptor is closed.
  void Add(int fd) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event);
  }
  void Remove(int fd) { epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // Returns those that are readable or closed by the other side; waits up to timeout_ms for the
  // first.
  std::vector<int> Readable(int timeout_ms) {
    epoll_event events[64];
    const int count = epoll_wait(fd_.get(), events, 64, timeout_ms);
    std::vector<int> fds;
    for (int i = 0; i < count; ++i) fds.push_back(events[i].data.fd);
    return fds;
  }

 private:
  const UniqueFd fd_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_POLL_SET_H_
