#include "worker/contract/rank_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/unix_socket.h"

namespace strata::worker {
namespace {

constexpr int kBacklog = 1024;
constexpr int kRetryMs = 10;

UniqueFd Socket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

}  // namespace

absl::StatusOr<UniqueFd> ListenAt(const std::string& name) {
  absl::StatusOr<AbstractAddress> address = MakeAbstractAddress(name);
  if (!address.ok()) return address.status();
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (bind(fd.get(), address->get(), address->bytes) != 0 || listen(fd.get(), kBacklog) != 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen at socket \"", name, "\": ", strerror(errno)));
  }
  return fd;
}

UniqueFd AcceptFrom(const UniqueFd& listener) {
  while (true) {
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return fd;
    }
    if (IsSameUser(fd.get())) return fd;
  }
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& name, absl::Duration deadline) {
  absl::StatusOr<AbstractAddress> address = MakeAbstractAddress(name);
  if (!address.ok()) return address.status();
  const absl::Time give_up = absl::Now() + deadline;
  while (true) {
    UniqueFd fd = Socket();
    if (connect(fd.get(), address->get(), address->bytes) == 0) {
      if (IsSameUser(fd.get())) return fd;
      return absl::PermissionDeniedError(
          absl::StrCat("a process of another user listens at socket \"", name, "\""));
    }
    if (absl::Now() >= give_up) {
      return absl::UnavailableError(absl::StrCat("cannot reach the node's aggregator at socket \"",
                                                 name, "\": ", strerror(errno)));
    }
    poll(nullptr, 0, kRetryMs);
  }
}

absl::Status SendDescriptors(int socket, int memory, int doorbell) {
  char byte = memory < 0 ? 'E' : 'M';
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (memory >= 0) {
    const int fds[2] = {memory, doorbell};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(rights), fds, sizeof(fds));
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) {
    if (errno != EINTR) return absl::UnavailableError(strerror(errno));
  }
  return absl::OkStatus();
}

absl::StatusOr<Descriptors> ReceiveDescriptors(int socket) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    pollfd wait{socket, POLLIN, 0};
    poll(&wait, 1, -1);
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || errno == EAGAIN));
  if (got != 1) return absl::UnavailableError("the node's aggregator is gone");
  Descriptors descriptors;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS &&
      rights->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
    int fds[2];
    memcpy(fds, CMSG_DATA(rights), sizeof(fds));
    descriptors.memory.Reset(fds[0]);
    descriptors.doorbell.Reset(fds[1]);
  }
  return descriptors;
}

}  // namespace strata::worker
