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

// The bound of a field that has no size of its own: a string, bytes, a list or a map.
struct FieldBound {
  size_t count_max = 1;  // elements of a list or a map
  size_t bytes_max = 0;  // of each string in it; 0: it holds none
};

// Job files: arguments and environment of a program, together with its path.
inline constexpr size_t kProgramBytesMax = (128 << 10) + (4 << 10);
// A job as it is submitted, whatever it is made of.
inline constexpr size_t kJobBytesMax = 256 << 10;
// The request of a call that names things and holds no job.
inline constexpr size_t kRequestBytesMax = 256 << 10;
// The request that submits a job.
inline constexpr size_t kSubmitBytesMax = kJobBytesMax + (16 << 10);
// Serialized jobs or daemons in one page of a list.
inline constexpr size_t kPageBytesMax = 2 << 20;
// Bytes of a failed process's error line.
inline constexpr size_t kFailedBytesMax = 4 << 10;

// Returns the bound of a field of proto/*.proto, by its name in its message: "Job.run_dir".
std::optional<FieldBound> BoundOf(absl::string_view field);
// Returns all of them, by field.
std::vector<std::pair<absl::string_view, FieldBound>> AllBounds();

// Checks a message from outside and all that it holds, however deep, before it is copied or kept:
// strings, bytes, lists and maps by BoundOf, the sum where a message has one, no string with a NUL,
// and what fields of other versions take. Errors: InvalidArgument, one line with the field's path
// and its bound: "job.run_dir has 40000000 bytes, at most 4096 are possible". Thread-safe.
absl::Status CheckBounds(const google::protobuf::Message& message);

// Parses a message from outside and checks its bounds. What is larger than a message of its type
// may be, or than kRequestBytesMax where its type has no bound as a whole, is not parsed, as parsed
// messages may be many times as large; the error then names the field that takes most. Errors:
// InvalidArgument, one line.
absl::Status ParseBounded(absl::string_view wire, google::protobuf::Message* message);

// Does FitText with all reasons and errors in a message: what a process says of a failure counts
// although it is too long. Other fields stay, for CheckBounds.
void FitProse(google::protobuf::Message* message);

// Shortens a text to `bytes_max`, between two characters, with "..." at its end, and puts '?' in
// the place of each NUL.
void FitText(size_t bytes_max, std::string* text);

}  // namespace strata

#endif  // STRATA_COMMON_OS_MESSAGE_BOUNDS_H_
