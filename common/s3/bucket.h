#ifndef STRATA_COMMON_S3_BUCKET_H_
#define STRATA_COMMON_S3_BUCKET_H_

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/s3/requests.h"
#include "common/s3/settings.h"

namespace strata::s3 {

using Pieces = absl::Span<const absl::Span<const char>>;

// The objects below one prefix of a bucket. Names are keys without that prefix.
//
// Threads: any. Each call blocks only its own, for at most Limits::deadline, and ends at once when
// `stop` is requested. Errors: as of Requests::Send.
class Bucket {
 public:
  // Loads libcurl; makes no requests. Errors: FailedPrecondition: no usable libcurl.
  static absl::StatusOr<std::unique_ptr<Bucket>> Open(const Settings& settings,
                                                      const Limits& limits, std::stop_token stop);

  // Writes an object, with a checksum that the server compares; a large one in parts, none of which
  // remains after an error. `only_new`: AlreadyExists if there is one of that name.
  absl::Status Put(const std::string& name, Pieces pieces, bool only_new);
  // Returns an object, at an address that is aligned for all types. Errors: InvalidArgument: it is
  // larger than `bytes_max`; no memory is allocated for it.
  absl::StatusOr<Bytes> Get(const std::string& name, uint64_t bytes_max = UINT64_MAX);
  // Returns all names that begin with `start`, in order. Errors: FailedPrecondition: the list is
  // malformed, or exceeds the limits on names or pages.
  absl::StatusOr<std::vector<std::string>> List(const std::string& start);
  // Removes an object; a missing one is fine.
  absl::Status Delete(const std::string& name);
  // Removes the parts of incomplete uploads whose names begin with `start`.
  absl::Status AbortUploads(const std::string& start);

 private:
  Bucket(const Curl& curl, const Settings& settings, const Limits& limits, std::stop_token stop);

  absl::Time Deadline() const { return requests_.Now() + requests_.limits().deadline; }
  std::string Key(const std::string& name) const { return requests_.settings().prefix + name; }

  absl::Status PutWhole(const std::string& name, Pieces pieces, bool only_new, absl::Time deadline);
  absl::Status PutInParts(const std::string& name, Pieces pieces, bool only_new,
                          absl::Time deadline);
  absl::StatusOr<std::string> BeginUpload(const std::string& name, absl::Time deadline);
  // Sends all parts and combines them into an object.
  absl::Status SendParts(const std::string& name, const std::string& upload, Pieces pieces,
                         bool only_new, absl::Time deadline);
  absl::Status CompleteUpload(const std::string& name, const std::string& upload,
                              const std::string& parts, Pieces pieces, bool only_new,
                              absl::Time deadline);
  absl::Status AbortUpload(const std::string& key, const std::string& upload, bool once,
                           absl::Time deadline);
  absl::StatusOr<Bytes> GetBefore(const std::string& name, uint64_t bytes_max, absl::Time deadline);
  // Returns the error for an unusable list.
  absl::Status WrongList(const std::string& why) const;
  // Returns whether an object with these bytes exists, which shows that a try without an answer was
  // carried out.
  absl::StatusOr<bool> HasBytes(const std::string& name, Pieces pieces, absl::Time deadline);

  Requests requests_;
};

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_BUCKET_H_
