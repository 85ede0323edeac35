#include "worker/aggregator/rank_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace strata::worker {
namespace {

constexpr int kBacklog = 1024;
constexpr int kRetryMs = 10;

struct Address {
  sockaddr_un name = {};
  socklen_t bytes = 0;
};

absl::StatusOr<Address> AddressOf(const std::string& name) {
  Address address;
  if (name.empty() || name.size() + 1 > sizeof(address.name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("bad socket name \"", name, "\""));
  }
  address.name.sun_family = AF_UNIX;
  memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

UniqueFd Socket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

}  // namespace

absl::StatusOr<UniqueFd> ListenAt(const std::string& name) {
  absl::StatusOr<Address> address = AddressOf(name);
  if (!address.ok()) return address.status();
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address->name), address->bytes) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
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
    ucred peer = {};
    socklen_t bytes = sizeof(peer);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
        peer.uid == geteuid()) {
      return fd;
    }
  }
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& name, absl::Duration deadline) {
  absl::StatusOr<Address> address = AddressOf(name);
  if (!address.ok()) return address.status();
  const absl::Time give_up = absl::Now() + deadline;
  while (true) {
    UniqueFd fd = Socket();
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address->name), address->bytes) == 0) {
      return fd;
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
