#include "common/os/atomic_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

// Its name is new, so it cannot be a link.
absl::Status WriteAndSync(const FileInFolder& file, absl::Span<const absl::Span<const char>> pieces,
                          PageCache cache) {
  UniqueFd fd(openat(file.folder, file.name.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd.valid()) return FileError(errno, file.path);
  absl::Status written = WritePieces(fd.get(), pieces, cache, file.path);
  if (!written.ok()) return written;
  if (fsync(fd.get()) != 0) return FileError(errno, file.path);
  if (close(fd.Release()) != 0) return FileError(errno, file.path);
  return absl::OkStatus();
}

// Makes the rename itself durable.
absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  return SyncFolder(folder);
}

// Both give a finished file its name. Return false with the reason in errno.
bool Replace(int folder, const char* temporary, const char* name) {
  return renameat(folder, temporary, folder, name) == 0;
}
bool PlaceWhereNothingIs(int folder, const char* temporary, const char* name) {
  if (linkat(folder, temporary, folder, name, 0) == 0) {
    unlinkat(folder, temporary, 0);
    return true;
  }
  // File systems without hard links may have this.
  const bool has_no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
  return has_no_links && renameat2(folder, temporary, folder, name, RENAME_NOREPLACE) == 0;
}

absl::Status WriteAndPlace(const FileInFolder& file,
                           absl::Span<const absl::Span<const char>> pieces, PageCache cache,
                           bool (*place)(int folder, const char* temporary, const char* name)) {
  // Processes on other hosts, or in containers, that share the folder may have the same pid.
  uint64_t own = 0;
  if (getrandom(&own, sizeof own, 0) != sizeof own) return FileError(errno, "/dev/urandom");
  const std::string suffix = absl::StrFormat(".tmp.%d.%016x", getpid(), own);
  const FileInFolder temporary = {file.folder, file.name + suffix, file.path + suffix};
  absl::Status status = WriteAndSync(temporary, pieces, cache);
  if (status.ok() && !place(file.folder, temporary.name.c_str(), file.name.c_str())) {
    status = FileError(errno, file.path);
  }
  if (!status.ok()) {
    unlinkat(file.folder, temporary.name.c_str(), 0);
    return status;
  }
  if (file.folder == AT_FDCWD) return SyncFolderOf(file.path);
  return fsync(file.folder) == 0 ? absl::OkStatus() : FileError(errno, file.path);
}
FileInFolder AtPath(const std::string& path) { return {AT_FDCWD, path, path}; }

absl::Status NotAFile(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(absl::StrFormat("%s: %s, not a file", path, what));
}

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFLNK:
      return "a symbolic link";
    default:
      return "a device";
  }
}

// Reading some of them waits for events, and others are endless.
bool IsOfTheKernel(int fd) {
  struct statfs facts = {};
  if (fstatfs(fd, &facts) != 0) return false;
  switch (static_cast<uint32_t>(facts.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<UniqueFd> OpenRegular(const FileInFolder& file, int flags, mode_t mode) {
  const std::string& path = file.path;
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("a path has a NUL in it");
  }
  UniqueFd fd(
      openat(file.folder, file.name.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode));
  struct stat facts = {};
  if (!fd.valid()) {
    // The error of opening is unhelpful here: "No such device or address".
    const int error = errno;
    const bool is_odd = error == ENXIO || error == ELOOP || error == EISDIR || error == ENODEV;
    if (is_odd && fstatat(file.folder, file.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(facts.st_mode)) {
      return NotAFile(path, KindOf(facts.st_mode));
    }
    return FileError(error, path);
  }
  if (fstat(fd.get(), &facts) != 0) return FileError(errno, path);
  if (!S_ISREG(facts.st_mode)) return NotAFile(path, KindOf(facts.st_mode));
  if (IsOfTheKernel(fd.get())) return NotAFile(path, "made by the kernel");
  // Processes that inherit the descriptor expect it to block.
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path, size_t bytes_max) {
  std::string content;
  char block[65536];
  while (true) {
    const ssize_t got = read(fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, path);
    if (got == 0) return content;
    if (content.size() + got > bytes_max) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: larger than %d bytes", path, bytes_max));
    }
    content.append(block, got);
  }
}

}  // namespace

absl::Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return FileError(errno, folder);
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, const std::string& content) {
  const absl::Span<const char> piece(content);
  return WriteFileAtomically(path, absl::MakeConstSpan(&piece, 1));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::Span<const char>> pieces, PageCache cache) {
  return WriteAndPlace(AtPath(path), pieces, cache, &Replace);
}

absl::Status WriteFileAtomically(const FileInFolder& file,
                                 absl::Span<const absl::Span<const char>> pieces, PageCache cache) {
  return WriteAndPlace(file, pieces, cache, &Replace);
}

absl::Status WriteNewFileAtomically(const std::string& path,
                                    absl::Span<const absl::Span<const char>> pieces) {
  return WriteAndPlace(AtPath(path), pieces, PageCache::kUse, &PlaceWhereNothingIs);
}

absl::Status WriteNewFileAtomically(const FileInFolder& file,
                                    absl::Span<const absl::Span<const char>> pieces) {
  return WriteAndPlace(file, pieces, PageCache::kUse, &PlaceWhereNothingIs);
}

absl::StatusOr<UniqueFd> OpenFolderBelow(const std::string& root,
                                         absl::Span<const std::string> folders, bool make) {
  constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  std::string path = root;
  UniqueFd folder(open(root.c_str(), kFolder));
  if (!folder.valid()) return FileError(errno, path);
  for (const std::string& name : folders) {
    absl::StrAppend(&path, "/", name);
    if (make && mkdirat(folder.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
      return FileError(errno, path);
    }
    // Its creator may not have synced it.
    if (make && fsync(folder.get()) != 0) return FileError(errno, path);
    UniqueFd next(openat(folder.get(), name.c_str(), kFolder | O_NOFOLLOW));
    if (!next.valid()) {
      const int error = errno;
      struct stat facts = {};
      const bool is_link = fstatat(folder.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
                           S_ISLNK(facts.st_mode);
      if (!is_link) return FileError(error, path);
      return absl::InvalidArgumentError(absl::StrCat(path, ": a symbolic link, not a folder"));
    }
    folder = std::move(next);
  }
  return folder;
}

absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path, Links links) {
  return OpenRegular(AtPath(path), O_RDONLY | (links == Links::kRefuse ? O_NOFOLLOW : 0), 0);
}

absl::StatusOr<UniqueFd> OpenRegularFile(const FileInFolder& file) {
  return OpenRegular(file, O_RDONLY | O_NOFOLLOW, 0);
}

absl::StatusOr<UniqueFd> OpenRegularFileToWrite(const std::string& path, int flags, mode_t mode) {
  const bool reads = (flags & O_ACCMODE) == O_RDWR;
  return OpenRegular(AtPath(path), flags | (reads ? 0 : O_WRONLY) | O_NOFOLLOW, mode);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max, Links links) {
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(path, links);
  return fd.ok() ? ReadAll(fd->get(), path, bytes_max) : fd.status();
}

absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, size_t bytes_max) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return FileError(errno, path);
  return ReadAll(fd.get(), path, bytes_max);
}

absl::Status FileError(int error_number, const std::string& path) {
  const std::string text = absl::StrFormat("%s: %s", path, strerror(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(text);
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    default:
      return absl::UnknownError(text);
  }
}

}  // namespace strata
