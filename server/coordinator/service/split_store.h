#ifndef STRATA_SERVER_COORDINATOR_SERVICE_SPLIT_STORE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_SPLIT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/fenced_writer.h"
#include "server/coordinator/service/stored_value.pb.h"

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

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_SPLIT_STORE_H_
