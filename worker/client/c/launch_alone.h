#ifndef STRATA_WORKER_CLIENT_C_LAUNCH_ALONE_H_
#define STRATA_WORKER_CLIENT_C_LAUNCH_ALONE_H_

#include "absl/status/statusor.h"
#include "proto/processes.pb.h"

namespace strata::client {

// Returns the launch of a rank that is a whole job without a cluster, of the job's protobuf text.
// Errors: InvalidArgument naming the field.
absl::StatusOr<proto::Launch> LaunchAlone(const char* text);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_LAUNCH_ALONE_H_
