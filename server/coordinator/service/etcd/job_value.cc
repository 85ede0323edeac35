#include "server/coordinator/service/etcd/job_value.h"

#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata::server {
namespace {

uint64_t Hash(const std::string& data) { return XXH3_64bits(data.data(), data.size()); }

}  // namespace

JobValue SplitJob(const proto::StoredJob& job, const std::string& part_set) {
  const std::string data = job.SerializeAsString();
  proto::StoredJobHead head;
  head.set_bytes(data.size());
  head.set_hash(Hash(data));
  JobValue value;
  if (data.size() <= JobValue::kPartBytes) {
    head.set_data(data);
  } else {
    for (size_t at = 0; at < data.size(); at += JobValue::kPartBytes) {
      value.parts.push_back(data.substr(at, JobValue::kPartBytes));
    }
    head.set_part_set(part_set);
    head.set_parts(value.parts.size());
  }
  value.head = head.SerializeAsString();
  return value;
}

absl::StatusOr<proto::StoredJobHead> ParseJobHead(const std::string& value) {
  proto::StoredJobHead head;
  if (!head.ParseFromString(value)) return absl::DataLossError("is damaged: no head of a job");
  return head;
}

absl::StatusOr<proto::StoredJob> JoinJob(const proto::StoredJobHead& head,
                                         const std::string& parts) {
  const std::string& data = head.parts() > 0 ? parts : head.data();
  if (data.size() != head.bytes()) {
    return absl::DataLossError(
        absl::StrFormat("is damaged: %d of %d bytes are there", data.size(), head.bytes()));
  }
  if (Hash(data) != head.hash()) return absl::DataLossError("is damaged: its hash is another one");
  proto::StoredJob job;
  if (!job.ParseFromString(data)) return absl::DataLossError("is damaged: no job");
  return job;
}

}  // namespace strata::server
