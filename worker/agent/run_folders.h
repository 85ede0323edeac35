#ifndef STRATA_WORKER_AGENT_RUN_FOLDERS_H_
#define STRATA_WORKER_AGENT_RUN_FOLDERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/agent/log_feed.h"

namespace strata::worker {

// The run directories of this host in which jobs have their logs.
//
// Threads: any.
class RunFolders final : public LogFolders {
 public:
  // Jobs that are remembered; ended jobs with the lowest numbers are forgotten first.
  static constexpr size_t kJobsMax = 1024;

  // `runs_dir`: the parent of run directories.
  explicit RunFolders(std::string runs_dir) : runs_dir_(std::move(runs_dir)) {}

  // A job's processes are about to start here, and are gone.
  void OnBegun(uint32_t job, const std::string& run_dir);
  void OnGone(uint32_t job);

  bool IsRunning(uint32_t job) const override;
  // `recorded` is used for a job that ran before this daemon started. Directories outside of
  // `runs_dir` are never accessed.
  absl::StatusOr<std::string> Find(uint32_t job, const std::string& recorded) const override;
  std::string FileOf(const proto::LogProcess& process) const override;

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

#endif  // STRATA_WORKER_AGENT_RUN_FOLDERS_H_
