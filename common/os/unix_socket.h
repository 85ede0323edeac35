#ifndef STRATA_COMMON_OS_UNIX_SOCKET_H_
#define STRATA_COMMON_OS_UNIX_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata {

// Sockets with a path for processes of one user, and root, which can act as any user: addresses
// "unix:/PATH".

// Returns the path; nullopt: the address is of another kind.
std::optional<std::string> UnixPath(const std::string& address);
std::string UnixAddress(const std::string& path);

// The maximum length of a socket's path, in bytes.
inline constexpr size_t kUnixPathBytesMax = 107;

// Returns the folders where this user's sockets may be; they may not exist. These are "strata" in
// `runtime_dir` ($XDG_RUNTIME_DIR) and in /run/user/UID, if those belong to this user, and finally
// /tmp/strata-UID. New sockets go into the first; a process with another environment, such as one
// of cron, may have used another.
std::vector<std::string> SocketFolders(const std::string& runtime_dir);
// Creates it if missing, for this user only; removes sockets there that nobody listens on. Errors:
// FailedPrecondition: it is not a folder, belongs to another user, or others may use it; those of
// files.
absl::Status MakeSocketFolder(const std::string& folder);

// A listening socket; its path is removed with it.
class UnixListener {
 public:
  // The socket is non-blocking; its file is accessible to this user only. Leftovers of a dead
  // process at the path are removed. Errors name the path: InvalidArgument (not absolute, too long,
  // something else is there), AlreadyExists (a process listens there), those of files.
  static absl::StatusOr<UnixListener> Create(const std::string& path);
  UnixListener(UnixListener&&) = default;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();

  const UniqueFd& fd() const { return fd_; }

 private:
  UnixListener(UniqueFd fd, std::string path, uint64_t inode)
      : fd_(std::move(fd)), path_(std::move(path)), inode_(inode) {}

  UniqueFd fd_;
  std::string path_;
  uint64_t inode_ = 0;  // of its file
};

// Returns whether the peer of an accepted socket may use it.
bool MayUse(int fd);

// Connects; the socket is non-blocking. Root may also connect to another user's process, in a
// folder that only root can have given that user. Errors: Unavailable with the reason;
// PermissionDenied: a process of another user listens there, or other users may put a socket of
// theirs there.
absl::StatusOr<UniqueFd> DialUnix(const std::string& path);

// Unix sockets with abstract names: they disappear with the process that holds them, and are
// visible only in its network namespace.

struct AbstractAddress {
  sockaddr_un name = {};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// Errors: InvalidArgument: empty, or too long.
absl::StatusOr<AbstractAddress> MakeAbstractAddress(const std::string& name);

// Returns the user of the peer of a connected Unix socket; nullopt: unknown.
std::optional<uid_t> PeerUser(int fd);
// Returns whether the peer's user is that of this process.
bool IsSameUser(int fd);

}  // namespace strata

#endif  // STRATA_COMMON_OS_UNIX_SOCKET_H_
