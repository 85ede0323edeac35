#include "common/event_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata {

absl::StatusOr<EventFd> EventFd::Create() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) {
    return absl::ResourceExhaustedError(absl::StrFormat("eventfd: %s", strerror(errno)));
  }
  return EventFd(std::move(fd));
}

void EventFd::Notify() const {
  const uint64_t one = 1;
  // EAGAIN means that the counter is at its maximum: it is readable already.
  while (write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

bool EventFd::Drain() const {
  uint64_t count = 0;
  ssize_t got = 0;
  do {
    got = read(fd_.get(), &count, sizeof count);
  } while (got < 0 && errno == EINTR);
  return got == sizeof count;
}

}  // namespace strata
