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

// Data split into values small enough for etcd (1.5 MiB per request). Pure.
struct SplitValue {
  static constexpr size_t kPartBytes = 1 << 20;

  std::string head;                // a StoredHead
  std::vector<std::string> parts;  // empty: the head holds everything
};

// `part_set`: the name for the parts, if there are any.
SplitValue Split(const std::string& data, const std::string& part_set);

// Errors of both: DataLoss, without the key's name.
absl::StatusOr<proto::StoredHead> ParseHead(const std::string& value);
// `parts`: their concatenation, if the head has any.
absl::StatusOr<std::string> Join(const proto::StoredHead& head, const std::string& parts);

// Values of any size in etcd: a large value is stored in parts, which are read via the value of the
// key that names them. A set of parts is written once and never changed.

// The location of such a value.
struct SplitPlace {
  std::string key;
  std::string parts;  // prefix for the parts of this value alone; ends with '/'
};

// Sets the value there to `data`, and applies `more` in the same change, all or nothing. Errors:
// those of FencedWriter::Write.
absl::Status PutSplit(FencedWriter* writer, const SplitPlace& place, const std::string& data,
                      std::vector<etcdserverpb::RequestOp> more = {});
// Deletes the value.
absl::Status DeleteSplit(FencedWriter* writer, const SplitPlace& place);

// Returns the bytes whose head was read at `revision`. Errors: DataLoss naming etcd and the key;
// those of EtcdClient: OutOfRange: etcd has compacted that revision.
absl::StatusOr<std::string> GetSplit(EtcdClient* client, const mvccpb::KeyValue& head,
                                     const std::string& parts, int64_t revision);

// Calls `take` with all keys below a prefix, in order, at `*revision`; if that is 0, at the current
// revision, which it is set to.
absl::Status ReadAll(EtcdClient* client, const std::string& prefix, int64_t* revision,
                     const std::function<absl::Status(const mvccpb::KeyValue&)>& take);

// DataLoss that names etcd and the key.
absl::Status Damaged(const EtcdClient& client, absl::string_view key, absl::string_view what);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_SPLIT_STORE_H_
