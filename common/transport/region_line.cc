#include "common/transport/region_line.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/os/unix_socket.h"
#include "common/transport/region_memory.h"

namespace strata::transport {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kDescriptorsMax = RegionMemory::kSegmentsMax + 1;
constexpr std::array<char, 8> kGreetingMagic = {'S', 'T', 'R', 'E', 'G', 'N', '0', '1'};

struct Message {
  std::array<char, 8> magic = {};
  uint64_t session = 0;
};

struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
};

// Never too long.
AbstractAddress AddressOf(int port) {
  return *MakeAbstractAddress(absl::StrCat("strata-regions-", port));
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::vector<UniqueFd> DescriptorsOf(msghdr* message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenForRegions(int port) {
  const AbstractAddress address = AddressOf(port);
  UniqueFd fd = NewSocket();
  if (bind(fd.get(), address.get(), address.bytes) != 0 || listen(fd.get(), kBacklog) != 0) {
    return absl::AlreadyExistsError(absl::StrCat(
        "no shared memory with peers of this host at port ", port, ": ", strerror(errno)));
  }
  return fd;
}

UniqueFd ConnectForRegions(int port) {
  const AbstractAddress address = AddressOf(port);
  UniqueFd fd = NewSocket();
  if (connect(fd.get(), address.get(), address.bytes) != 0 || !IsSameUser(fd.get())) {
    fd.Reset();
  }
  return fd;
}

UniqueFd AcceptForRegions(const UniqueFd& listener) {
  while (true) {
    UniqueFd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd.valid() || IsSameUser(fd.get())) return fd;
  }
}

absl::Status SendGreeting(const UniqueFd& line, const RegionGreeting& greeting) {
  Message message = {kGreetingMagic, greeting.session};
  Control control;
  iovec part = {&message, sizeof message};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = CMSG_SPACE(greeting.descriptors.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(greeting.descriptors.size() * sizeof(int));
  for (size_t i = 0; i < greeting.descriptors.size(); ++i) {
    const int fd = greeting.descriptors[i].get();
    memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(int));
  }
  if (sendmsg(line.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof message) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("a peer of this host: ", strerror(errno)));
}

absl::StatusOr<std::optional<RegionGreeting>> TakeGreeting(const UniqueFd& line) {
  Message message;
  Control control;
  iovec part = {&message, sizeof message};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  const ssize_t got = recvmsg(line.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) return absl::UnavailableError("a peer of this host is gone");
  RegionGreeting greeting = {.session = message.session, .descriptors = DescriptorsOf(&header)};
  const bool is_whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (got != sizeof message || message.magic != kGreetingMagic || !is_whole ||
      greeting.descriptors.size() < 2) {
    return absl::InvalidArgumentError("a peer of this host does not speak of regions");
  }
  return greeting;
}

bool HasEnded(const UniqueFd& line) {
  char byte = 0;
  const ssize_t got = recv(line.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace strata::transport
