#include "server/coordinator/service/etcd_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/access/known_cluster.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_job_store.h"
#include "server/coordinator/service/split_store.h"

namespace strata::server {

absl::StatusOr<std::unique_ptr<EtcdState>> EtcdState::Open(Options options) {
  if (absl::Status name = EtcdKeys::CheckCluster(options.cluster); !name.ok()) return name;
  std::stop_source stop;
  auto lease_client = EtcdClient::Open({.endpoints = options.endpoints, .tls = options.tls});
  if (!lease_client.ok()) return lease_client.status();
  auto client = EtcdClient::Open({.endpoints = options.endpoints,
                                  .tls = options.tls,
                                  .deadline = 2 * options.failover,
                                  .stop = stop.get_token()});
  if (!client.ok()) return client.status();
  std::unique_ptr<EtcdState> state(new EtcdState(std::move(options), *std::move(lease_client),
                                                 *std::move(client), std::move(stop)));
  // A coordinator that could never lead must not stand by.
  const auto recorded = state->lease_client_->Range(RangeOf(state->keys_.Authority()));
  if (!recorded.ok()) return recorded.status();
  const absl::Status may = state->CheckRootsNow(OnlyKey(*recorded));
  if (!may.ok()) return may;
  const absl::Status found = state->FindCluster();
  if (!found.ok()) return found;
  return state;
}

EtcdState::EtcdState(Options options, std::shared_ptr<EtcdClient> lease_client,
                     std::shared_ptr<EtcdClient> client, std::stop_source stop)
    : options_(std::move(options)),
      keys_(options_.cluster),
      lease_client_(std::move(lease_client)),
      client_(std::move(client)),
      stop_(std::move(stop)) {}

EtcdState::~EtcdState() { StopCalls(); }

absl::Status EtcdState::FindCluster() {
  const auto read = lease_client_->Range(RangeOf(keys_.ClusterId()));
  if (!read.ok()) return read.status();
  found_ = {.etcd = client_->name(), .name = options_.cluster, .id = ""};
  const mvccpb::KeyValue* const id = OnlyKey(*read);
  if (id == nullptr) return CheckKeysAreOwn(lease_client_.get(), keys_);
  if (!IsClusterId(id->value())) {
    return Damaged(*client_, keys_.ClusterId(), "is damaged: no id of 16 hexadecimal digits");
  }
  found_.id = id->value();
  return absl::OkStatus();
}

absl::Status EtcdState::CheckRootsNow(const mvccpb::KeyValue* recorded) const {
  if (recorded == nullptr) return absl::OkStatus();
  const absl::Status may = CheckRoots(recorded->value(), options_.roots);
  if (may.ok()) return may;
  return absl::Status(may.code(),
                      absl::StrCat(client_->name(), ": ", keys_.Authority(), ": ", may.message()));
}

absl::Status EtcdState::Campaign(const std::string& address,
                                 std::function<void(const absl::Status& why)> on_deposed) {
  auto lease = LeaderLease::Start(
      lease_client_,
      {.cluster = options_.cluster,
       .address = address,
       .ttl = options_.failover,
       .on_deposed = [this, on_deposed = std::move(on_deposed)](const absl::Status& why) {
         StopCalls();
         on_deposed(why);
       }});
  if (!lease.ok()) return lease.status();
  lease_ = *std::move(lease);
  return absl::OkStatus();
}

absl::StatusOr<Leadership> EtcdState::AwaitElection(absl::Duration at_most) {
  return lease_->AwaitElection(at_most);
}

absl::StatusOr<std::unique_ptr<JobStore>> EtcdState::OpenStore(const Leadership& leadership) {
  writer_ = std::make_shared<FencedWriter>(client_, leadership);
  const auto recorded = writer_->Read({Get(keys_.Authority())});
  if (!recorded.ok()) return recorded.status();
  const mvccpb::KeyValue* const value = OnlyKey(*recorded, 0);
  if (absl::Status may = CheckRootsNow(value); !may.ok()) return may;
  auto store = OpenEtcdJobStore(client_, writer_);
  if (!store.ok()) return store;
  found_.id = (*store)->cluster_id();
  const std::string own = RootsValue(options_.roots);
  if (value != nullptr && value->value() == own) return store;
  const absl::Status written = writer_->Write({Put(keys_.Authority(), own)});
  return written.ok() ? std::move(store) : written;
}

absl::StatusOr<std::optional<proto::KeyBookRecord>> EtcdState::LoadBook() {
  const auto range = client_->Range(RangeOf(keys_.KeyBook()));
  if (!range.ok()) return range.status();
  const mvccpb::KeyValue* const head = OnlyKey(*range);
  if (head == nullptr) return std::nullopt;
  const absl::StatusOr<std::string> data =
      GetSplit(client_.get(), *head, keys_.PartsOfKeyBook(), range->header().revision());
  if (!data.ok()) return data.status();
  proto::KeyBookRecord book;
  if (!book.ParseFromString(*data)) {
    return Damaged(*client_, keys_.KeyBook(), "is damaged: no book of keys");
  }
  return book;
}

absl::Status EtcdState::SaveBook(const proto::KeyBookRecord& book) {
  return PutSplit(writer_.get(), {keys_.KeyBook(), keys_.PartsOfKeyBook()},
                  book.SerializeAsString());
}

}  // namespace strata::server
