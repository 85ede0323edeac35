#include "server/coordinator/service/split_store.h"

#include <xxhash.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/os/limits.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"

namespace strata::server {
namespace {

// The limit of one answer: with the largest values it stays below gRPC's message limit.
constexpr int64_t kPageKeys = 56;
static_assert(kPageKeys * (SplitValue::kPartBytes + 4096) < kControlMessageBytesMax);

uint64_t Hash(const std::string& data) { return XXH3_64bits(data.data(), data.size()); }

}  // namespace

absl::Status Damaged(const EtcdClient& client, absl::string_view key, absl::string_view what) {
  return absl::DataLossError(absl::StrFormat("%s: %s: %s", client.name(), key, what));
}

absl::Status PutSplit(FencedWriter* writer, const SplitPlace& place, const std::string& data,
                      std::vector<etcdserverpb::RequestOp> more) {
  const std::string set = writer->NextName();
  const SplitValue value = Split(data, set);
  for (size_t i = 0; i < value.parts.size(); ++i) {
    const absl::Status put =
        writer->Write({Put(EtcdKeys::PartIn(place.parts, set, i), value.parts[i])});
    if (!put.ok()) return put;
  }
  // The new parts count from now on; old ones are deleted, also those of an unfinished change.
  more.push_back(Put(place.key, value.head));
  const std::string end = EtcdKeys::EndOf(place.parts);
  if (value.parts.empty()) {
    more.push_back(Delete(place.parts, end));
  } else {
    const std::string own = EtcdKeys::PartSetIn(place.parts, set);
    more.push_back(Delete(place.parts, own));
    more.push_back(Delete(EtcdKeys::EndOf(own), end));
  }
  return writer->Write(more);
}

absl::Status DeleteSplit(FencedWriter* writer, const SplitPlace& place) {
  return writer->Write({Delete(place.key), Delete(place.parts, EtcdKeys::EndOf(place.parts))});
}

absl::StatusOr<std::string> GetSplit(EtcdClient* client, const mvccpb::KeyValue& kv,
                                     const std::string& parts, int64_t revision) {
  const absl::StatusOr<proto::StoredHead> head = ParseHead(kv.value());
  if (!head.ok()) return Damaged(*client, kv.key(), head.status().message());
  std::string joined;
  if (head->parts() > 0) {
    const absl::Status read = ReadAll(client, EtcdKeys::PartSetIn(parts, head->part_set()),
                                      &revision, [&](const mvccpb::KeyValue& part) {
                                        joined += part.value();
                                        return absl::OkStatus();
                                      });
    if (!read.ok()) return read;
  }
  absl::StatusOr<std::string> data = Join(*head, joined);
  if (data.ok()) return data;
  return Damaged(*client, kv.key(), data.status().message());
}

absl::Status ReadAll(EtcdClient* client, const std::string& prefix, int64_t* revision,
                     const std::function<absl::Status(const mvccpb::KeyValue&)>& take) {
  etcdserverpb::RangeRequest request = RangeOf(prefix, EtcdKeys::EndOf(prefix));
  request.set_limit(kPageKeys);
  while (true) {
    request.set_revision(*revision);
    const auto page = client->Range(request);
    if (!page.ok()) return page.status();
    if (*revision == 0) *revision = page->header().revision();
    for (const mvccpb::KeyValue& kv : page->kvs()) {
      if (const absl::Status taken = take(kv); !taken.ok()) return taken;
    }
    if (!page->more() || page->kvs_size() == 0) return absl::OkStatus();
    // The key right after the last one.
    request.set_key(page->kvs(page->kvs_size() - 1).key() + std::string(1, '\0'));
  }
}

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
