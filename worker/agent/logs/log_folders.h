#ifndef STRATA_WORKER_AGENT_LOGS_LOG_FOLDERS_H_
#define STRATA_WORKER_AGENT_LOGS_LOG_FOLDERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace strata::worker {

// In which run directories of this host jobs have their logs.
//
// Threads: any.
class LogFolders {
 public:
  // Jobs that are remembered; those with the lowest numbers are forgotten first.
  static constexpr size_t kJobsMax = 1024;

  // `runs_dir`: the parent of run directories.
  explicit LogFolders(std::string runs_dir) : runs_dir_(std::move(runs_dir)) {}

  // A job's processes are about to begin here, and are gone.
  void OnBegun(uint32_t job, const std::string& run_dir);
  void OnGone(uint32_t job);
  // Whether the job may still write its logs.
  bool IsRunning(uint32_t job) const;

  // The run directory of a job. `recorded`: where the job's record says that it is, for one that
  // ran before this daemon began; what is not below `runs_dir` is not looked at. Errors: NotFound:
  // it has none here, or not yet; FailedPrecondition: another job has had it since, or it is
  // elsewhere; each in words that follow "rank 3's log on worker w2: ".
  absl::StatusOr<std::string> Find(uint32_t job, const std::string& recorded) const;

 private:
  struct Folder {
    std::string run_dir;
    bool running = false;
  };

  const std::string runs_dir_;
  mutable absl::Mutex mutex_;
  std::map<uint32_t, Folder> folders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGS_LOG_FOLDERS_H_
