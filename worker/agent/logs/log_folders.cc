#include "worker/agent/logs/log_folders.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/agent/run_directory.h"
#include "worker/agent/run_directory_lock.h"

namespace strata::worker {

void LogFolders::OnBegun(uint32_t job, const std::string& run_dir) {
  absl::MutexLock lock(&mutex_);
  folders_[job] = {run_dir, true};
  if (folders_.size() > kJobsMax) folders_.erase(folders_.begin());
}

void LogFolders::OnGone(uint32_t job) {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(job);
  if (found != folders_.end()) found->second.running = false;
}

bool LogFolders::IsRunning(uint32_t job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(job);
  return found != folders_.end() && found->second.running;
}

absl::StatusOr<std::string> LogFolders::Find(uint32_t job, const std::string& recorded) const {
  std::string run_dir = recorded;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = folders_.find(job);
    if (found != folders_.end()) run_dir = found->second.run_dir;
  }
  if (run_dir.empty()) return absl::NotFoundError("the job has no run directory yet");
  if (absl::Status below = CheckRunDirectory(run_dir, runs_dir_); !below.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker was started anew since the job ran, and ", run_dir,
                     " is not below its --runs"));
  }
  const std::optional<uint32_t> holder = LastJobIn(run_dir);
  if (!holder.has_value()) {
    return absl::NotFoundError(absl::StrCat(run_dir, " is no run directory of a job"));
  }
  if (*holder != job) {
    return absl::FailedPreconditionError(
        absl::StrCat("run directory ", run_dir, " is now that of job ", *holder));
  }
  return run_dir;
}

}  // namespace strata::worker
