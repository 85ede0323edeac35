#ifndef STRATA_CLI_RENDER_TRACE_CHROME_TRACE_H_
#define STRATA_CLI_RENDER_TRACE_CHROME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace strata::cli {

// What the processes of a job recorded, in the trace event format of Chrome, which Perfetto reads.
// Each process of the job is one there, with a row for what its thread does one after the other (a
// rank's waits lie within its passes), and below it rows for what its devices do, each by the name
// of the device and of what it does there one after the other; chunks that wait beside each other,
// "ready" and "server wait", are asynchronous events. Times are in microseconds since the first
// event. `job` tells its name and how large chunks are.
std::string ChromeTrace(const std::vector<proto::TraceBatch>& batches, const proto::JobStatus& job);

struct TraceCounts {
  uint64_t events = 0;
  uint64_t left_out = 0;
};
TraceCounts Count(const std::vector<proto::TraceBatch>& batches);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_TRACE_CHROME_TRACE_H_
