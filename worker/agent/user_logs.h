#ifndef STRATA_WORKER_AGENT_USER_LOGS_H_
#define STRATA_WORKER_AGENT_USER_LOGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/os/limits.h"

namespace strata::worker {

// Limits the bytes of logs that the jobs of a user with keys leave below a worker's folder of runs.
// When a job ends, the logs of the user's oldest ended jobs are removed until the rest is within
// the limit; the newest job's stay, and so do all other files in their run directories.
//
// The file `.owner` in a run directory names its user, so that a restarted worker knows. Several
// workers may share one folder: it has one limit.
//
// Threads: one at a time.
class UserLogs {
 public:
  explicit UserLogs(const std::string& runs_dir, uint64_t bytes_max = kUserLogBytesMax);

  // Sets the owner of the run directory; empty: no user with keys, whose logs are unlimited. Errors
  // name the file.
  static absl::Status SetOwner(const std::string& run_dir, const std::string& owner);

  // The processes of the user's job are gone. The first call searches the folder for existing logs,
  // at most kDepthMax folders deep.
  void OnEnded(const std::string& owner, const std::string& run_dir);

 private:
  static constexpr int kDepthMax = 4;

  struct Run {
    std::string owner;
    std::string run_dir;
    int64_t began = 0;  // by the file system's clock
    uint64_t bytes = 0;
  };

  void FindBelow(const std::string& folder, int depth);
  void Add(const std::string& owner, const std::string& run_dir);
  uint64_t BytesOf(const std::string& owner) const;

  const std::string runs_dir_;  // absolute and normal, as run directories are
  const uint64_t bytes_max_;
  bool has_looked_ = false;
  std::vector<Run> runs_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_USER_LOGS_H_
