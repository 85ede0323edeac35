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

// Sockets with a path, which only processes of one user may use, and root's, which could be any
// user's: addresses "unix:/PATH".

// Returns the path; nullopt: the address is of another kind.
std::optional<std::string> UnixPath(const std::string& address);
std::string UnixAddress(const std::string& path);

// The longest path that a socket may have, in bytes.
inline constexpr size_t kUnixPathBytesMax = 107;

// Returns the folders where this user's sockets may be, which may not be there: "strata" in
// `runtime_dir` ($XDG_RUNTIME_DIR) and in /run/user/UID, where those are this user's, and last
// /tmp/strata-UID. The first is for new ones; a process with another environment, as one of cron,
// may have taken another.
std::vector<std::string> SocketFolders(const std::string& runtime_dir);
// Makes it where it is missing, for this user only; sockets there that nobody listens on any more
// go. Errors: FailedPrecondition: it is no folder,
// another user's, or others may use it; those of files.
absl::Status MakeSocketFolder(const std::string& folder);

// A socket that listens; its path goes with it.
class UnixListener {
 public:
  // The socket does not block; its file is this user's alone. What a process that died has left at
  // the path goes. Errors: InvalidArgument (not absolute, too long, something else is there),
  // AlreadyExists (a process listens there), those of files; all name the path.
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

// Returns whether the process at the other end of an accepted socket may use it.
bool MayUse(int fd);

// Connects; the socket does not block. Root may speak to another user's process, too, in a folder
// that only root can have given that user. Errors: Unavailable with the reason; PermissionDenied: a
// process of another user listens there, or other users may put a socket of theirs there.
absl::StatusOr<UniqueFd> DialUnix(const std::string& path);

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
// Returns whether the peer's user is that of this process.
bool IsSameUser(int fd);

}  // namespace strata

#endif  // STRATA_COMMON_OS_UNIX_SOCKET_H_
