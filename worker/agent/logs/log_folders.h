#ifndef STRATA_WORKER_AGENT_LOGS_LOG_FOLDERS_H_
#define STRATA_WORKER_AGENT_LOGS_LOG_FOLDERS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/logs.pb.h"

namespace strata::worker {

// Where jobs have their logs on this host.
class LogFolders {
 public:
  virtual ~LogFolders() = default;
  // Whether the job may still write its logs.
  virtual bool IsRunning(uint32_t job) const = 0;
  // The run directory of a job; `recorded`: where the job's record says that it is. Errors:
  // NotFound: it has none here, or not yet; FailedPrecondition: another job has had it since, or it
  // is elsewhere; each in words that follow "rank 3's log on worker w2: ".
  virtual absl::StatusOr<std::string> Find(uint32_t job, const std::string& recorded) const = 0;
  // The name of a process's log in the run directory's logs/.
  virtual std::string FileOf(const proto::LogProcess& process) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGS_LOG_FOLDERS_H_
