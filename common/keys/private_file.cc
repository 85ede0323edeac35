#include "common/keys/private_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "common/os/atomic_file.h"
#include "common/os/trusted_file.h"
#include "common/unique_fd.h"

namespace strata::keys {
namespace {

constexpr mode_t kOwnOnly = 0600;
constexpr mode_t kOthersRead = 0044;
constexpr mode_t kOthers = 0077;

// Checks the opened file rather than the path, which may be replaced in between.
absl::Status CheckIsPrivate(int fd, const std::string& path) {
  struct stat is = {};
  if (fstat(fd, &is) != 0) return FileError(errno, path);
  if (!S_ISREG(is.st_mode)) {
    return absl::FailedPreconditionError(absl::StrFormat("%s: not a regular file", path));
  }
  const uid_t self = geteuid();
  // Root may use other users' files, such as those of a service with a user of its own.
  if (is.st_uid != self && is.st_uid != 0 && self != 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: belongs to uid %d, who can read the secret in it, you are uid %d: run "
                        "as that user, or chown %d %s",
                        path, is.st_uid, self, self, path));
  }
  if ((is.st_mode & kOthers) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: mode %04o lets others %s the secret in it: chmod 600 %s", path, is.st_mode & 07777,
        (is.st_mode & kOthersRead) != 0 ? "read" : "change", path));
  }
  return absl::OkStatus();
}

// Returns the error for a file that cannot be opened, with its owner if visible.
absl::Status CannotOpen(int error, const std::string& path) {
  struct stat is = {};
  if (error != EACCES) return FileError(error, path);
  const uid_t self = geteuid();
  if (stat(path.c_str(), &is) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s: you are uid %d, who may not look into its folder: run as the user whose that is", path,
        self));
  }
  if (is.st_uid == self) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "%s: mode %04o does not let you read it: chmod 600 %s", path, is.st_mode & 07777, path));
  }
  return absl::PermissionDeniedError(
      absl::StrFormat("%s: belongs to uid %d, you are uid %d: run as that user, or chown %d %s",
                      path, is.st_uid, self, self, path));
}

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t wrote = write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return FileError(errno, path);
    content.remove_prefix(wrote);
  }
  return absl::OkStatus();
}

// A file that root writes into a user's folder is given to that user, who must read it.
absl::Status GiveToFoldersOwner(int fd, const std::string& folder) {
  struct stat is = {};
  if (geteuid() != 0) return absl::OkStatus();
  if (stat(folder.c_str(), &is) != 0) return FileError(errno, folder);
  if (is.st_uid == 0 || fchown(fd, is.st_uid, is.st_gid) == 0) return absl::OkStatus();
  return FileError(errno, folder);
}

absl::Status WriteAndSync(const std::string& path, const std::string& folder,
                          absl::string_view content) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnOnly));
  if (!fd.valid()) return FileError(errno, path);
  // The umask may have removed the owner's own rights.
  if (fchmod(fd.get(), kOwnOnly) != 0) return FileError(errno, path);
  if (absl::Status status = GiveToFoldersOwner(fd.get(), folder); !status.ok()) return status;
  if (absl::Status status = WriteAll(fd.get(), content, path); !status.ok()) return status;
  if (fsync(fd.get()) != 0) return FileError(errno, path);
  if (close(fd.Release()) != 0) return FileError(errno, path);
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t bytes_max) {
  // Without O_NONBLOCK the opening of a pipe would wait for a writer.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd.valid()) return CannotOpen(errno, path);
  if (absl::Status status = CheckIsPrivate(fd.get(), path); !status.ok()) return status;
  std::string content;
  char block[4096];
  while (true) {
    const ssize_t got = read(fd.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path);
    if (got == 0) return content;
    if (content.size() + got > bytes_max) {
      return absl::FailedPreconditionError(
          absl::StrFormat("%s: larger than %d bytes", path, bytes_max));
    }
    content.append(block, got);
  }
}

absl::Status WritePrivateFile(const std::string& path, absl::string_view content) {
  const std::string folder = FolderOf(path);
  if (absl::Status status = MakeOwnFolders(folder); !status.ok()) return status;
  // Processes on other hosts, or in containers, that share the folder may have the same pid.
  uint64_t own = 0;
  if (getrandom(&own, sizeof own, 0) != sizeof own) return FileError(errno, "/dev/urandom");
  const std::string temporary = absl::StrFormat("%s.tmp.%d.%016x", path, getpid(), own);
  absl::Status status = WriteAndSync(temporary, folder, content);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = FileError(errno, path);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncFolder(folder);
}

}  // namespace strata::keys
