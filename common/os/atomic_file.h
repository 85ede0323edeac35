#ifndef STRATA_COMMON_OS_ATOMIC_FILE_H_
#define STRATA_COMMON_OS_ATOMIC_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/os/direct_file.h"
#include "common/unique_fd.h"

namespace strata {

// Returns the error of a system call on a file, with the code that fits errno: "PATH: no such
// file".
absl::Status FileError(int error_number, const std::string& path);

// Writes a file so that readers, even after a crash, see either the old content or the whole new
// one: into PATH.tmp.PID.RANDOM, synced, then renamed. Any number of processes, on any hosts, may
// write one path: each content is complete. Errors name the path: NotFound (folder),
// PermissionDenied, ResourceExhausted (disk full), Unknown; no temporary file is left then.
absl::Status WriteFileAtomically(const std::string& path, const std::string& content);
// Writes content in several pieces.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::Span<const char>> pieces,
                                 PageCache cache = PageCache::kUse);

// The same if nothing exists at the path. Errors: AlreadyExists: something does, and stays.
absl::Status WriteNewFileAtomically(const std::string& path,
                                    absl::Span<const absl::Span<const char>> pieces);

// A file in an open folder, so that nobody can replace the folder's path. `name` has no '/'; `path`
// is for error messages.
struct FileInFolder {
  int folder = -1;
  std::string name;
  std::string path;
};
// Like those for paths.
absl::Status WriteFileAtomically(const FileInFolder& file,
                                 absl::Span<const absl::Span<const char>> pieces,
                                 PageCache cache = PageCache::kUse);
absl::Status WriteNewFileAtomically(const FileInFolder& file,
                                    absl::Span<const absl::Span<const char>> pieces);

// How to treat a symbolic link as the last part of a path.
enum class Links { kFollow, kRefuse };

// Opens files that others name, or may have put in place. Only regular files are opened: this never
// blocks on a pipe, device or socket, and reads none of the kernel's own (/proc, /sys). Errors name
// the path and what is there: NotFound, PermissionDenied, InvalidArgument, Unknown.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path, Links links = Links::kFollow);
// The same in an open folder; a link is refused.
absl::StatusOr<UniqueFd> OpenRegularFile(const FileInFolder& file);
// Opens the folder of a file below `root`. `folders` lead there from `root`; only `root` may have
// symbolic links in its path. With `make`, missing ones are created durably, for this user alone.
// Errors name the folder: those of FileError; InvalidArgument: a symbolic link.
absl::StatusOr<UniqueFd> OpenFolderBelow(const std::string& root,
                                         absl::Span<const std::string> folders, bool make);
// The same for writing, with O_APPEND and so on in `flags`; a link is refused. With O_CREAT it is
// created with `mode`.
absl::StatusOr<UniqueFd> OpenRegularFileToWrite(const std::string& path, int flags,
                                                mode_t mode = 0644);

// Returns the whole content of a regular file of at most `bytes_max`. Errors name the path: those
// of OpenRegularFile, InvalidArgument (larger), Unknown.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max,
                                     Links links = Links::kFollow);
// The same for a file that this process's user has named, which may be a pipe, such as /dev/stdin.
// Waits for its end.
absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, size_t bytes_max);

// Makes creations, renames and removals in a folder durable. Errors name it.
absl::Status SyncFolder(const std::string& folder);

}  // namespace strata

#endif  // STRATA_COMMON_OS_ATOMIC_FILE_H_
