#ifndef STRATA_CLI_OPTIONS_CHROME_TRACE_H_
#define STRATA_CLI_OPTIONS_CHROME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace strata::cli {

// Returns the records of a job's processes in the trace event format of Chrome, which Perfetto
// reads. Each process of the job is one there, with a row for its thread (a rank's waits lie within
// its passes), and below it rows for its devices, each named after the device and the kind of work;
// chunks that wait beside each other, "ready" and "server wait", are asynchronous events. Times are
// in microseconds since the first event. `job` tells its name and how large chunks are.
std::string ChromeTrace(const std::vector<proto::TraceBatch>& batches, const proto::JobStatus& job);

struct TraceCounts {
  uint64_t events = 0;
  uint64_t left_out = 0;
};
TraceCounts Count(const std::vector<proto::TraceBatch>& batches);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_CHROME_TRACE_H_
