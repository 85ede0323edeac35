#ifndef STRATA_COMMON_OS_MESSAGE_BOUNDS_H_
#define STRATA_COMMON_OS_MESSAGE_BOUNDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace strata {

// The limit of a field without a size of its own: a string, bytes, a list or a map.
struct FieldBound {
  size_t count_max = 1;  // elements of a list or a map
  size_t bytes_max = 0;  // per string in it; 0: it holds none
};

// Job files: arguments and environment of a program, together with its path.
inline constexpr size_t kProgramBytesMax = (128 << 10) + (4 << 10);
// A job as submitted, whatever its content.
inline constexpr size_t kJobBytesMax = 256 << 10;
// A request that names things and contains no job.
inline constexpr size_t kRequestBytesMax = 256 << 10;
// The request that submits a job.
inline constexpr size_t kSubmitBytesMax = kJobBytesMax + (16 << 10);
// Serialized jobs or daemons in one page of a list.
inline constexpr size_t kPageBytesMax = 2 << 20;
// Bytes of a failed process's error line.
inline constexpr size_t kFailedBytesMax = 4 << 10;

// Returns the limit of a field of proto/*.proto, by its name in its message: "Job.run_dir".
std::optional<FieldBound> BoundOf(absl::string_view field);
// Returns all of them, by field.
std::vector<std::pair<absl::string_view, FieldBound>> AllBounds();

// Checks an untrusted message and everything in it, at any depth, before it is copied or kept:
// strings, bytes, lists and maps by BoundOf, the sum if a message has a limit, no string with a
// NUL, and the size of unknown fields. Errors: InvalidArgument, one line with the field's path and
// its limit: "job.run_dir has 40000000 bytes, at most 4096 are possible". Thread-safe.
absl::Status CheckBounds(const google::protobuf::Message& message);

// Parses an untrusted message and checks its limits. A text larger than the type's limit, or than
// kRequestBytesMax if it has none, is not parsed, as parsed messages may be many times as large;
// the error then names the largest field. Errors: InvalidArgument, one line.
absl::Status ParseBounded(absl::string_view wire, google::protobuf::Message* message);

// Applies FitText to all reasons and errors in a message: a process's report of a failure counts
// even if it is too long. Other fields are left to CheckBounds.
void FitProse(google::protobuf::Message* message);

// Truncates a text to `bytes_max`, between two characters, with "..." at its end, and replaces each
// NUL by '?'.
void FitText(size_t bytes_max, std::string* text);

}  // namespace strata

#endif  // STRATA_COMMON_OS_MESSAGE_BOUNDS_H_
