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

bool IsSameUser(int fd) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

}  // namespace strata
