#ifndef STRATA_WORKER_CLIENT_CONNECT_REPORT_VALUES_H_
#define STRATA_WORKER_CLIENT_CONNECT_REPORT_VALUES_H_

#include <map>
#include <string>

#include "absl/status/status.h"

namespace strata::client {

// Whether these may be a report's values. Errors: InvalidArgument naming the value.
absl::Status CheckValues(const std::map<std::string, double>& values);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_REPORT_VALUES_H_
