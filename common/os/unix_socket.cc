#include "common/os/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/os/atomic_file.h"

namespace strata {
namespace {

constexpr char kScheme[] = "unix:";
// The listener may be busy, and accepts connections from the queue later.
constexpr int kBacklog = 4096;
constexpr mode_t kOwnOnly = 0700;
constexpr absl::Duration kLockWait = absl::Seconds(2), kLockTurn = absl::Milliseconds(5);

absl::Status CheckPath(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(kScheme, path, ": expected an absolute path"));
  }
  if (path.size() <= kUnixPathBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s%s: longer than the %d bytes of a socket's "
                      "path",
                      kScheme, path, kUnixPathBytesMax));
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd Socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Returns errno, or 0: it is connected.
int ConnectTo(const std::string& path, UniqueFd* fd) {
  *fd = Socket();
  if (!fd->valid()) return errno;
  const sockaddr_un address = AddressOf(path);
  return connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
             ? 0
             : errno;
}

std::string FolderOf(const std::string& path) {
  return path.substr(0, std::max<size_t>(path.rfind('/'), 1));
}

// Locks the folder, so that of two processes that want the same path neither removes what the other
// has bound and does not listen on yet. Another holder of the lock only delays this.
UniqueFd LockFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const absl::Time give_up_at = absl::Now() + kLockWait;
  while (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && absl::Now() < give_up_at) {
    absl::SleepFor(kLockTurn);
  }
  return fd;
}

// Returns whether only this user and root can put sockets at the path.
bool IsOurs(const std::string& path) {
  struct stat facts = {};
  // If there is no folder, connecting reports it.
  if (stat(FolderOf(path).c_str(), &facts) != 0) return true;
  if (facts.st_uid != geteuid() && facts.st_uid != 0) return false;
  return (facts.st_mode & 022) == 0 || (facts.st_mode & S_ISVTX) != 0;
}

// Returns the one user besides root who can have put a socket at the path, for root to trust: the
// folder's owner, if everything above it belongs to root or that user.
std::optional<uid_t> OwnerForRoot(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::canonical(FolderOf(path), error);
  struct stat facts = {};
  if (error || stat(folder.c_str(), &facts) != 0) return std::nullopt;
  const uid_t owner = facts.st_uid;
  while (true) {
    if (stat(folder.c_str(), &facts) != 0 || (facts.st_mode & 022) != 0) return std::nullopt;
    if (facts.st_uid != owner && facts.st_uid != 0) return std::nullopt;
    if (folder == folder.root_path()) return owner;
    folder = folder.parent_path();
  }
}

// Removes a socket that nobody listens on any more from the path.
absl::Status ClearPath(const std::string& path) {
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) != 0) {
    return errno == ENOENT ? absl::OkStatus() : FileError(errno, path);
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", kScheme, path, ": something is there that is no socket"));
  }
  UniqueFd fd;
  const int error = ConnectTo(path, &fd);
  if (error == 0 || error == EAGAIN) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", kScheme, path, ": a process listens there already"));
  }
  if (error != ECONNREFUSED && error != ENOENT) return FileError(error, path);
  return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : FileError(errno, path);
}

absl::Status MakeOwn(const std::string& folder) {
  if (mkdir(folder.c_str(), kOwnOnly) != 0 && errno != EEXIST) return FileError(errno, folder);
  struct stat facts = {};
  if (lstat(folder.c_str(), &facts) != 0) return FileError(errno, folder);
  if (!S_ISDIR(facts.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(folder, ": it is no folder"));
  }
  if (facts.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: it belongs to user %d; set XDG_RUNTIME_DIR to a folder of your own",
                        folder, facts.st_uid));
  }
  if ((facts.st_mode & 077) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: other users may look into it; chmod 700 %s", folder, folder));
}

}  // namespace

std::optional<std::string> UnixPath(const std::string& address) {
  if (!absl::StartsWith(address, kScheme)) return std::nullopt;
  return address.substr(sizeof(kScheme) - 1);
}

std::string UnixAddress(const std::string& path) { return kScheme + path; }

std::vector<std::string> SocketFolders(const std::string& runtime_dir) {
  std::vector<std::string> folders;
  for (const std::string& dir : {runtime_dir, absl::StrCat("/run/user/", geteuid())}) {
    struct stat facts = {};
    if (!dir.empty() && dir[0] == '/' && stat(dir.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
        facts.st_uid == geteuid()) {
      folders.push_back(dir + "/strata");
    }
  }
  folders.push_back(absl::StrCat("/tmp/strata-", geteuid()));
  return folders;
}

absl::Status MakeSocketFolder(const std::string& folder) {
  if (absl::Status own = MakeOwn(folder); !own.ok()) return own;
  const UniqueFd lock = LockFolder(folder);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_socket(error)) ClearPath(entry.path()).IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<UnixListener> UnixListener::Create(const std::string& path) {
  if (absl::Status status = CheckPath(path); !status.ok()) return status;
  const UniqueFd lock = LockFolder(FolderOf(path));
  if (absl::Status status = ClearPath(path); !status.ok()) return status;
  UniqueFd fd = Socket();
  if (!fd.valid()) return FileError(errno, path);
  // Sets the mode of the socket, and so of the file.
  if (fchmod(fd.get(), 0600) != 0) return FileError(errno, path);
  const sockaddr_un address = AddressOf(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FileError(errno, path);
  }
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) != 0) return FileError(errno, path);
  UnixListener listener(std::move(fd), path, facts.st_ino);
  if (listen(listener.fd_.get(), kBacklog) != 0) return FileError(errno, path);
  return listener;
}

UnixListener::~UnixListener() {
  if (!fd_.valid()) return;
  // Not if another socket has replaced it.
  const UniqueFd lock = LockFolder(FolderOf(path_));
  struct stat facts = {};
  if (lstat(path_.c_str(), &facts) == 0 && facts.st_ino == inode_) unlink(path_.c_str());
}

bool MayUse(int fd) {
  const std::optional<uid_t> user = PeerUser(fd);
  return user == geteuid() || user == 0;
}

absl::StatusOr<UniqueFd> DialUnix(const std::string& path) {
  if (absl::Status status = CheckPath(path); !status.ok()) return status;
  const std::optional<uid_t> owner = geteuid() == 0 ? OwnerForRoot(path) : std::nullopt;
  if (!owner.has_value() && !IsOurs(path)) {
    return absl::PermissionDeniedError(absl::StrCat(kScheme, path, ": other users may replace it"));
  }
  UniqueFd fd;
  if (const int error = ConnectTo(path, &fd); error != 0) {
    std::string text = std::strerror(error);
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    return absl::UnavailableError(text);
  }
  if (IsSameUser(fd.get()) || (owner.has_value() && PeerUser(fd.get()) == owner)) return fd;
  return absl::PermissionDeniedError(
      absl::StrCat(kScheme, path, ": a process of another user listens there"));
}

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
