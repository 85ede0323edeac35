#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_SPLIT_STORE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_SPLIT_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/service/etcd/etcd_client.h"
#include "server/coordinator/service/etcd/fenced_writer.h"

namespace strata::server {

// Values of any size in etcd: what is too large for one lies in parts, which are read once the
// value of the key names them. A set of parts is written once and never changed.

// Where such a value lies.
struct SplitPlace {
  std::string key;
  std::string parts;  // prefix that is the value's alone; ends with '/'
};

// Makes `data` the value there, with `more` in the same change: all of it or nothing counts.
// Errors: those of FencedWriter::Write.
absl::Status PutSplit(FencedWriter* writer, const SplitPlace& place, const std::string& data,
                      std::vector<etcdserverpb::RequestOp> more = {});
// Takes the value away.
absl::Status DeleteSplit(FencedWriter* writer, const SplitPlace& place);

// Returns the bytes whose head was read as of `revision`. Errors: DataLoss naming etcd and the key;
// those of EtcdClient: OutOfRange: etcd has dropped what it was then.
absl::StatusOr<std::string> GetSplit(EtcdClient* client, const mvccpb::KeyValue& head,
                                     const std::string& parts, int64_t revision);

// Calls `take` with all keys below a prefix in their order, as of `*revision`; 0: as of now, which
// is put there.
absl::Status ReadAll(EtcdClient* client, const std::string& prefix, int64_t* revision,
                     const std::function<absl::Status(const mvccpb::KeyValue&)>& take);

// DataLoss that names etcd and the key.
absl::Status Damaged(const EtcdClient& client, absl::string_view key, absl::string_view what);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_SPLIT_STORE_H_
