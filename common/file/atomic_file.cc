#include "common/file/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_format.h"
#include "common/unique_fd.h"

namespace strata {
namespace {

absl::Status WriteAndSync(const std::string& path, absl::Span<const absl::Span<const char>> pieces,
                          PageCache cache) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return FileError(errno, path);
  absl::Status written = WritePieces(fd.get(), pieces, cache, path);
  if (!written.ok()) return written;
  if (fsync(fd.get()) != 0) return FileError(errno, path);
  if (close(fd.Release()) != 0) return FileError(errno, path);
  return absl::OkStatus();
}

// Makes the rename itself survive a crash.
absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  return SyncFolder(folder);
}

// Both give a finished file its name. False: errno says why not.
bool Replace(const char* temporary, const char* path) { return rename(temporary, path) == 0; }
bool PlaceWhereNothingIs(const char* temporary, const char* path) {
  if (link(temporary, path) == 0) {
    unlink(temporary);
    return true;
  }
  // File systems that have no hard links may have this.
  const bool has_no_links = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
  return has_no_links && renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0;
}

absl::Status WriteAndPlace(const std::string& path, absl::Span<const absl::Span<const char>> pieces,
                           PageCache cache,
                           bool (*place)(const char* temporary, const char* path)) {
  // Processes of other hosts, or containers, that share the folder may have this one's number.
  uint64_t own = 0;
  if (getrandom(&own, sizeof own, 0) != sizeof own) return FileError(errno, "/dev/urandom");
  const std::string temporary = absl::StrFormat("%s.tmp.%d.%016x", path, getpid(), own);
  absl::Status status = WriteAndSync(temporary, pieces, cache);
  if (status.ok() && !place(temporary.c_str(), path.c_str())) status = FileError(errno, path);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncFolderOf(path);
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
  return WriteAndPlace(path, pieces, cache, &Replace);
}

absl::Status WriteNewFileAtomically(const std::string& path,
                                    absl::Span<const absl::Span<const char>> pieces) {
  return WriteAndPlace(path, pieces, PageCache::kUse, &PlaceWhereNothingIs);
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return FileError(errno, path);
  std::string content;
  char block[65536];
  while (true) {
    const ssize_t got = read(fd.get(), block, sizeof block);
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

}  // namespace strata
