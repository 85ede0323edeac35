#ifndef STRATA_COMMON_EVENT_FD_H_
#define STRATA_COMMON_EVENT_FD_H_

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata {

// A doorbell that poll() can wait on: readable after Notify until Drain. Rings before a Drain
// merge. Works across processes when the descriptor is passed on. Notify and Drain are thread-safe,
// and neither blocks.
class EventFd {
 public:
  // Errors: ResourceExhausted (no descriptors left).
  static absl::StatusOr<EventFd> Create();
  // Takes over an eventfd that somebody else made non-blocking.
  static EventFd Adopt(UniqueFd fd) { return EventFd(std::move(fd)); }

  int fd() const { return fd_.get(); }
  void Notify() const;
  // True: it had been rung.
  bool Drain() const;

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace strata

#endif  // STRATA_COMMON_EVENT_FD_H_
