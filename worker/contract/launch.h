#ifndef STRATA_WORKER_CONTRACT_LAUNCH_H_
#define STRATA_WORKER_CONTRACT_LAUNCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/processes.pb.h"

namespace strata::client {

// Reads the launch file that a rank or an aggregator is started with. Errors: NotFound,
// InvalidArgument, each naming the file.
absl::StatusOr<proto::Launch> ReadLaunch(const std::string& path);

}  // namespace strata::client

#endif  // STRATA_WORKER_CONTRACT_LAUNCH_H_
