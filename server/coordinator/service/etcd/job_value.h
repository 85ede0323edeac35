#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_JOB_VALUE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_JOB_VALUE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/service/etcd/stored_value.pb.h"

namespace strata::server {

// A job as values of etcd, none of which is too large for it (1.5 MiB a request). Pure.
struct JobValue {
  static constexpr size_t kPartBytes = 1 << 20;

  std::string head;                // a StoredJobHead
  std::vector<std::string> parts;  // none: all of it is in the head
};

// `part_set`: the name that the parts get, if there are any.
JobValue SplitJob(const proto::StoredJob& job, const std::string& part_set);

// Errors of both: DataLoss, without the key's name.
absl::StatusOr<proto::StoredJobHead> ParseJobHead(const std::string& value);
// `parts`: all of them one after the other, where the head has any.
absl::StatusOr<proto::StoredJob> JoinJob(const proto::StoredJobHead& head,
                                         const std::string& parts);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_JOB_VALUE_H_
