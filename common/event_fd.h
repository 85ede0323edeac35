#ifndef STRATA_COMMON_EVENT_FD_H_
#define STRATA_COMMON_EVENT_FD_H_

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata {

// A doorbell for poll(): readable after Notify until Drain. Notifications before a Drain merge.
// Works across processes when the descriptor is passed on. Notify and Drain are thread-safe and do
// not block.
class EventFd {
 public:
  // Errors: ResourceExhausted (no descriptors left).
  static absl::StatusOr<EventFd> Create();
  // Takes over a non-blocking eventfd.
  static EventFd Adopt(UniqueFd fd) { return EventFd(std::move(fd)); }

  int fd() const { return fd_.get(); }
  void Notify() const;
  // Returns true if Notify was called before.
  bool Drain() const;

 private:
  explicit EventFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace strata

#endif  // STRATA_COMMON_EVENT_FD_H_
