#include "worker/agent/run_folders.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {

void RunFolders::OnBegun(uint32_t job, const std::string& run_dir) {
  absl::MutexLock lock(&mutex_);
  folders_[job] = {run_dir, true};
  if (folders_.size() <= kJobsMax) return;
  const auto oldest = std::find_if(folders_.begin(), folders_.end(),
                                   [](const auto& entry) { return !entry.second.running; });
  if (oldest != folders_.end()) folders_.erase(oldest);
}

void RunFolders::OnGone(uint32_t job) {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(job);
  if (found != folders_.end()) found->second.running = false;
}

bool RunFolders::IsRunning(uint32_t job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(job);
  return found != folders_.end() && found->second.running;
}

absl::StatusOr<std::string> RunFolders::Find(uint32_t job, const std::string& recorded) const {
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
  if (*holder < job) {
    return absl::NotFoundError(
        absl::StrCat("run directory ", run_dir, " is still that of job ", *holder));
  }
  if (*holder != job) {
    return absl::FailedPreconditionError(
        absl::StrCat("run directory ", run_dir, " is now that of job ", *holder));
  }
  return run_dir;
}

std::string RunFolders::FileOf(const proto::LogProcess& process) const {
  const std::string path = process.has_rank() ? RankLog("", process.rank())
                                              : AggregatorLog("", process.aggregator_node());
  return path.substr(path.rfind('/') + 1);
}

}  // namespace strata::worker
