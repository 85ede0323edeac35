#ifndef STRATA_WORKER_CLIENT_CONNECT_REPORT_VALUES_H_
#define STRATA_WORKER_CLIENT_CONNECT_REPORT_VALUES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "proto/processes.pb.h"
#include "worker/client/report.h"

namespace strata::client {

// Whether these may be a report's values. Errors: InvalidArgument naming the value.
absl::Status CheckValues(const std::map<std::string, double>& values);

// Copies what the program says of a window of steps. What the client counts is its own to add.
void CopyReport(const Report& report, proto::RankReport* out);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_REPORT_VALUES_H_
