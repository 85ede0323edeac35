#include "server/coordinator/service/etcd/split_value.h"

#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

uint64_t Hash(const std::string& data) { return XXH3_64bits(data.data(), data.size()); }

}  // namespace

SplitValue Split(const std::string& data, const std::string& part_set) {
  proto::StoredHead head;
  head.set_bytes(data.size());
  head.set_hash(Hash(data));
  SplitValue value;
  if (data.size() <= SplitValue::kPartBytes) {
    head.set_data(data);
  } else {
    for (size_t at = 0; at < data.size(); at += SplitValue::kPartBytes) {
      value.parts.push_back(data.substr(at, SplitValue::kPartBytes));
    }
    head.set_part_set(part_set);
    head.set_parts(value.parts.size());
  }
  value.head = head.SerializeAsString();
  return value;
}

absl::StatusOr<proto::StoredHead> ParseHead(const std::string& value) {
  proto::StoredHead head;
  if (!head.ParseFromString(value)) return absl::DataLossError("is damaged: no head of a value");
  return head;
}

absl::StatusOr<std::string> Join(const proto::StoredHead& head, const std::string& parts) {
  const std::string& data = head.parts() > 0 ? parts : head.data();
  if (data.size() != head.bytes()) {
    return absl::DataLossError(
        absl::StrFormat("is damaged: %d of %d bytes are there", data.size(), head.bytes()));
  }
  if (Hash(data) != head.hash()) return absl::DataLossError("is damaged: its hash is another one");
  return data;
}

}  // namespace strata::server
