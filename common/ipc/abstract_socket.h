#ifndef STRATA_COMMON_IPC_ABSTRACT_SOCKET_H_
#define STRATA_COMMON_IPC_ABSTRACT_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace strata {

// Unix sockets with names that are in no folder: they go with the process that holds them, and are
// seen in its network namespace alone.

struct AbstractAddress {
  sockaddr_un name = {};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Errors: InvalidArgument: empty, or too long.
absl::StatusOr<AbstractAddress> MakeAbstractAddress(const std::string& name);

// The user of the process at the other end of a connected Unix socket; nullopt: not known.
std::optional<uid_t> PeerUser(int fd);
// Whether that is the user of this process.
bool IsSameUser(int fd);

}  // namespace strata

#endif  // STRATA_COMMON_IPC_ABSTRACT_SOCKET_H_
