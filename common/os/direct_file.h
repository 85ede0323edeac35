#ifndef STRATA_COMMON_OS_DIRECT_FILE_H_
#define STRATA_COMMON_OS_DIRECT_FILE_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace strata {

// Large files past the page cache (O_DIRECT): the disk transfers whole blocks directly, no core
// copies them, and others' cached data stays. Small files, and file systems without support, use
// ordinary calls.

inline constexpr size_t kDirectBytesMin = size_t{16} << 20;
// Pieces that begin at multiples of it, in memory and in the file, are not copied.
inline constexpr size_t kDirectAlignment = 4096;

// Large data may bypass the page cache.
enum class PageCache { kUse, kBypass };
// Writes pieces back to back, from the descriptor's position on, which is such a multiple. Errors:
// those of FileError.
absl::Status WritePieces(int fd, absl::Span<const absl::Span<const char>> pieces, PageCache cache,
                         const std::string& path);

// Reads the first `size` bytes in order and in pieces, which are valid during the call of `take`;
// its error ends the read and is returned. Errors: the same.
absl::Status ReadDirectly(int fd, size_t size, const std::string& path,
                          absl::FunctionRef<absl::Status(absl::Span<const char>)> take);

}  // namespace strata

#endif  // STRATA_COMMON_OS_DIRECT_FILE_H_
