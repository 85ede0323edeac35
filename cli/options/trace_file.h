#ifndef STRATA_CLI_OPTIONS_TRACE_FILE_H_
#define STRATA_CLI_OPTIONS_TRACE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"

namespace strata::cli {

// Checks early that a trace can be written to `path`; leaves nothing there. Errors: InvalidArgument
// naming the file.
absl::Status CheckTraceFile(const std::string& path);

// Waits until the job has ended, requests its trace, writes it to `path`, reports that on standard
// output (unless `quiet`) and warns of missing parts. Errors: the coordinator's, the file's.
absl::Status WriteTrace(control::CoordinatorClient* client, JobId job, const std::string& path,
                        bool quiet);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_TRACE_FILE_H_
