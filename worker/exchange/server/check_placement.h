#ifndef STRATA_WORKER_EXCHANGE_SERVER_CHECK_PLACEMENT_H_
#define STRATA_WORKER_EXCHANGE_SERVER_CHECK_PLACEMENT_H_

#include "absl/status/status.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Checks that a record says where every chunk lies. Errors: InvalidArgument naming the field.
absl::Status CheckPlacement(const proto::JobRecord& record);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_CHECK_PLACEMENT_H_
