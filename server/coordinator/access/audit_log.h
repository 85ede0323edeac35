#ifndef STRATA_SERVER_COORDINATOR_ACCESS_AUDIT_LOG_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_AUDIT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

namespace strata::server {

// Something that somebody has done, or was not let do.
struct AuditEntry {
  std::string who;   // "user ada"
  std::string peer;  // address; empty: unknown
  std::string what;  // "submit"
  uint32_t job = 0;  // 0: about none
  bool refused = false;
  std::string detail = {};  // whom or what, or why not
};

// A log of who did what, a line of JSON each, at the end of a file that this user alone can read.
// The files before it, PATH.1 to PATH.4, are kept. What cannot be written is lost; the log says so
// once.
//
// Threads: any.
class AuditLog {
 public:
  struct Options {
    size_t bytes_max = 64 << 20;  // of a file
    int older_max = 4;            // files kept besides
    // Refused calls of one second and one caller that are written down; of others how many there
    // were. Strangers are one caller. Those who have no right to anything would fill the files, or
    // hide what others do, else.
    uint32_t refused_per_second = 20;
  };
  static constexpr size_t kTextBytesMax = 1024;  // of one text; what is longer is cut off

  // Errors name the path: those of FileError, FailedPrecondition: not a regular file.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Options& options);
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path) {
    return Open(path, Options());
  }

  void Write(const AuditEntry& entry, absl::Time now);

 private:
  AuditLog(std::string path, const Options& options) : path_(std::move(path)), options_(options) {}
  // Makes the file the first of the older ones.
  absl::Status Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Options options_;
  absl::Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_torn_ ABSL_GUARDED_BY(mutex_) = false;  // the file's last line has no end
  bool is_failing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::map<std::string, uint32_t> refused_ ABSL_GUARDED_BY(mutex_);  // of that second, by who
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;                    // since the last line
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_AUDIT_LOG_H_
