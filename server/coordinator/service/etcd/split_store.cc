#include "server/coordinator/service/etcd/split_store.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/limits/limits.h"
#include "server/coordinator/service/etcd/etcd_keys.h"
#include "server/coordinator/service/etcd/requests.h"
#include "server/coordinator/service/etcd/split_value.h"

namespace strata::server {
namespace {

// Of one answer: with the largest values it stays below what a message may have.
constexpr int64_t kPageKeys = 56;
static_assert(kPageKeys * (SplitValue::kPartBytes + 4096) < kControlMessageBytesMax);

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
  // From here on the value is what the new parts say; those of before go, also of a change that was
  // not finished.
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
    // The next key after the last one.
    request.set_key(page->kvs(page->kvs_size() - 1).key() + std::string(1, '\0'));
  }
}

}  // namespace strata::server
