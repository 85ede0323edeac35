#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_SPLIT_VALUE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_SPLIT_VALUE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/coordinator/service/etcd/stored_value.pb.h"

namespace strata::server {

// Bytes as values of etcd, none of which is too large for it (1.5 MiB a request). Pure.
struct SplitValue {
  static constexpr size_t kPartBytes = 1 << 20;

  std::string head;                // a StoredHead
  std::vector<std::string> parts;  // none: all of it is in the head
};

// `part_set`: the name that the parts get, if there are any.
SplitValue Split(const std::string& data, const std::string& part_set);

// Errors of both: DataLoss, without the key's name.
absl::StatusOr<proto::StoredHead> ParseHead(const std::string& value);
// `parts`: all of them one after the other, where the head has any.
absl::StatusOr<std::string> Join(const proto::StoredHead& head, const std::string& parts);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_SPLIT_VALUE_H_
