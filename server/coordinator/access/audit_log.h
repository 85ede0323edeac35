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

// An action that was taken or refused.
struct AuditEntry {
  std::string who;   // "user ada"
  std::string peer;  // address; empty: unknown
  std::string what;  // "submit"
  uint32_t job = 0;  // 0: concerns no job
  bool refused = false;
  std::string detail = {};  // the object of the action, or the reason for a refusal
};

// A log of who did what: one JSON object per line, appended to a file that only this user can read.
// The older files PATH.1 to PATH.4 are kept. Entries that cannot be written are lost; the log says
// so once.
//
// Threads: any.
class AuditLog {
 public:
  struct Options {
    size_t bytes_max = 64 << 20;  // per file
    int older_max = 4;            // older files kept
    // Refused calls that are written per second and caller; beyond that only their number is. All
    // strangers count as one caller. Without this limit, callers without rights could fill the
    // files or hide what others do.
    uint32_t refused_per_second = 20;
  };
  static constexpr size_t kTextBytesMax = 1024;  // per text; longer ones are truncated

  // Errors name the path: those of FileError, FailedPrecondition: not a regular file.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Options& options);
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path) {
    return Open(path, Options());
  }

  void Write(const AuditEntry& entry, absl::Time now);

 private:
  AuditLog(std::string path, const Options& options) : path_(std::move(path)), options_(options) {}
  // Makes the current file the newest of the older ones.
  absl::Status Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Options options_;
  absl::Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_torn_ ABSL_GUARDED_BY(mutex_) = false;  // the file's last line is incomplete
  bool is_failing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::map<std::string, uint32_t> refused_ ABSL_GUARDED_BY(mutex_);  // in the current second, by
                                                                     // caller
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;                    // since the last written line
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_AUDIT_LOG_H_
