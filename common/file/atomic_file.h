#ifndef STRATA_COMMON_FILE_ATOMIC_FILE_H_
#define STRATA_COMMON_FILE_ATOMIC_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/file/direct_file.h"
#include "common/file/file_error.h"

namespace strata {

// Writes a file so that readers, also after a crash, see the old content or all of the new one:
// into PATH.tmp.PID.RANDOM, synced, then renamed. Any number of processes, also of several hosts,
// may write one path: each content is whole. Errors name the path: NotFound (folder),
// PermissionDenied, ResourceExhausted (disk full), Unknown; no temporary file is left then.
absl::Status WriteFileAtomically(const std::string& path, const std::string& content);
// Writes content that lies in several pieces.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::Span<const char>> pieces,
                                 PageCache cache = PageCache::kUse);

// Likewise, but where nothing is at the path. Errors: AlreadyExists: something is, and stays.
absl::Status WriteNewFileAtomically(const std::string& path,
                                    absl::Span<const absl::Span<const char>> pieces);

// The whole content of a file of at most `bytes_max`. Errors name the path: NotFound,
// PermissionDenied, InvalidArgument (larger, or a folder), Unknown.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max);

// Makes what was made, renamed or removed in a folder survive a crash. Errors name it.
absl::Status SyncFolder(const std::string& folder);

}  // namespace strata

#endif  // STRATA_COMMON_FILE_ATOMIC_FILE_H_
