#ifndef STRATA_CLI_OPTIONS_CHROME_TRACE_H_
#define STRATA_CLI_OPTIONS_CHROME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "proto/control.pb.h"

namespace strata::cli {

// Returns the records of a job's processes in Chrome's trace event format, which Perfetto reads.
// Each process of the job is a process there, with a row for its thread (a rank's waits are within
// its passes), and below it rows for its devices, each named after the device and the kind of work;
// concurrent waits of chunks, "ready" and "server wait", are asynchronous events. Times are in
// microseconds since the first event. `job` gives its name and the size of chunks.
std::string ChromeTrace(const std::vector<proto::TraceBatch>& batches, const proto::JobStatus& job);

struct TraceCounts {
  uint64_t events = 0;
  uint64_t left_out = 0;
};
TraceCounts Count(const std::vector<proto::TraceBatch>& batches);

// Checks early that a trace can be written to `path`; leaves nothing there. Errors: InvalidArgument
// naming the file.
absl::Status CheckTraceFile(const std::string& path);

// Waits until the job has ended, requests its trace, writes it to `path`, reports that on standard
// output (unless `quiet`) and warns of missing parts. Errors: the coordinator's, the file's.
absl::Status WriteTrace(control::CoordinatorClient* client, JobId job, const std::string& path,
                        bool quiet);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_CHROME_TRACE_H_
