#ifndef STRATA_SERVER_COORDINATOR_LOGS_LOG_SHARES_H_
#define STRATA_SERVER_COORDINATOR_LOGS_LOG_SHARES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "proto/logs.pb.h"
#include "server/coordinator/logs/log_readings.h"

namespace strata::server {

// What a coordinator knows of a job whose logs somebody looks at.
struct LogScene {
  proto::JobStatus job;
  proto::ListNodesReply daemons;
  bool wants_daemons = true;  // else they are left out, as they take a while
};

// Which worker is to read which of the logs that are wanted: each is where the process runs, or ran
// last. Errors: FailedPrecondition: the job has not begun; InvalidArgument: it has no such process.
absl::StatusOr<std::vector<LogReadings::Share>> SharesOf(const LogScene& scene,
                                                         const proto::ReadLogs& wanted);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_LOGS_LOG_SHARES_H_
