#ifndef STRATA_SERVER_COORDINATOR_ACCESS_POLICY_FILE_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_POLICY_FILE_H_

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/coordinator/access/policy.h"

namespace strata::server {

// The current policy of a file. It is read again once the file changes. The previous policy stays
// if the new one cannot be read, or if the new one lists nobody and the previous one did.
//
// Threads: any.
class PolicyFile {
 public:
  // Interval between checks of the file.
  static constexpr absl::Duration kLookEvery = absl::Seconds(1);

  // If `must_exist` is false, a missing file lists nobody until it appears. Errors name the file:
  // NotFound; InvalidArgument as of Policy::Parse; FailedPrecondition: others may change it, it
  // belongs to neither root nor this user, or it is not a regular file; those of FileError.
  static absl::StatusOr<std::unique_ptr<PolicyFile>> Open(const std::string& path, bool must_exist);

  // `now` never goes back by much.
  std::shared_ptr<const Policy> Current(absl::Time now);

 private:
  // Identifies the version of a file that was read.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    timespec modified = {};
    timespec changed = {};

    bool operator==(const Stamp& other) const;
  };

  explicit PolicyFile(std::string path) : path_(std::move(path)) {}
  Stamp Look() const;  // a missing file has a stamp of its own
  // Reads the file and notes its stamp.
  absl::Status Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex mutex_;
  absl::Time looked_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Stamp stamp_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Policy>();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_POLICY_FILE_H_
