#include "common/ipc/abstract_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace strata {

absl::StatusOr<AbstractAddress> MakeAbstractAddress(const std::string& name) {
  AbstractAddress address;
  if (name.empty() || name.size() + 1 > sizeof(address.name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("bad socket name \"", name, "\""));
  }
  address.name.sun_family = AF_UNIX;
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

std::optional<uid_t> PeerUser(int fd) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return peer.uid;
}

bool IsSameUser(int fd) { return PeerUser(fd) == geteuid(); }

}  // namespace strata
