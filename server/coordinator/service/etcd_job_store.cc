#include "server/coordinator/service/etcd_job_store.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/coordinator/access/known_cluster.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"
#include "server/coordinator/service/fenced_writer.h"
#include "server/coordinator/service/seen_blocks.h"
#include "server/coordinator/service/split_store.h"

namespace strata::server {
namespace {

// Attempts, if etcd compacts its history during a read.
constexpr int kLoadsMax = 3;

std::string RandomName() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

class EtcdJobStore final : public JobStore {
 public:
  EtcdJobStore(std::shared_ptr<EtcdClient> client, std::shared_ptr<FencedWriter> writer)
      : client_(std::move(client)),
        keys_(writer->leadership().cluster),
        writer_(std::move(writer)) {}

  // Creates the state if there is none, and reads it once.
  absl::Status Prepare() {
    const auto meta = writer_->Read({Get(keys_.Schema()), Get(keys_.ClusterId()),
                                     Get(keys_.LastJobId()), Get(keys_.LastWrite())});
    if (!meta.ok()) return meta.status();
    const absl::Status known = OnlyKey(*meta, 0) == nullptr ? Create() : ReadMeta(*meta);
    return known.ok() ? LoadSeenBlocks() : known;
  }

  const std::string& cluster_id() const override { return cluster_id_; }
  uint32_t next_job_id() const override { return last_job_id_ + 1; }

  absl::StatusOr<std::vector<proto::StoredJob>> Load() override {
    absl::StatusOr<std::vector<proto::StoredJob>> jobs = LoadOnce();
    for (int loads = 1; loads < kLoadsMax && absl::IsOutOfRange(jobs.status()); ++loads) {
      jobs = LoadOnce();
    }
    return jobs;
  }

  absl::Status Save(const proto::StoredJob& job) override {
    const JobId id(job.record().job_id());
    std::vector<etcdserverpb::RequestOp> more;
    // The id counts as used exactly when the job exists.
    const uint32_t last = std::max(last_job_id_, id.value());
    if (last != last_job_id_) more.push_back(Put(keys_.LastJobId(), absl::StrCat(last)));
    const absl::Status saved =
        PutSplit(writer_.get(), PlaceOf(id), job.SerializeAsString(), std::move(more));
    if (saved.ok()) last_job_id_ = last;
    return saved;
  }

  absl::Status Remove(JobId job) override { return DeleteSplit(writer_.get(), PlaceOf(job)); }

  absl::StatusOr<std::vector<SeenRegistrations::Entry>> LoadSeen() override {
    if (const absl::Status loaded = LoadSeenBlocks(); !loaded.ok()) return loaded;
    return seen_.Newest();
  }

  absl::Status SaveSeen(const std::vector<SeenRegistrations::Entry>& seen) override {
    if (!is_seen_known_) {
      if (const absl::Status loaded = LoadSeenBlocks(); !loaded.ok()) return loaded;
    }
    const SeenBlocks::Change change = seen_.Append(seen);
    std::vector<etcdserverpb::RequestOp> ops;
    for (const auto& [number, value] : change.blocks) {
      ops.push_back(Put(keys_.SeenBlock(number), value));
    }
    if (change.first > 0) ops.push_back(Delete(keys_.SeenBlocks(), keys_.SeenBlock(change.first)));
    const absl::Status saved = writer_->Write(ops);
    is_seen_known_ = saved.ok();
    return saved;
  }

  absl::StatusOr<std::vector<std::string>> LoadDraining() override {
    const auto read = writer_->Read({Get(keys_.Draining())});
    if (!read.ok()) return read.status();
    const mvccpb::KeyValue* const value = OnlyKey(*read, 0);
    if (value == nullptr) return std::vector<std::string>();
    proto::StoredDraining draining;
    if (!draining.ParseFromString(value->value())) {
      return Damaged(keys_.Draining(), "is damaged: no list of daemons");
    }
    return std::vector<std::string>(draining.daemons().begin(), draining.daemons().end());
  }

  absl::Status SaveDraining(const std::vector<std::string>& daemons) override {
    proto::StoredDraining draining;
    for (const std::string& daemon : daemons) draining.add_daemons(daemon);
    return writer_->Write({Put(keys_.Draining(), draining.SerializeAsString())});
  }

 private:
  SplitPlace PlaceOf(JobId job) const { return {keys_.Job(job), keys_.Parts(job)}; }

  absl::Status Damaged(absl::string_view key, absl::string_view what) const {
    return server::Damaged(*client_, key, what);
  }

  absl::StatusOr<std::vector<proto::StoredJob>> LoadOnce() {
    std::vector<proto::StoredJob> jobs;
    int64_t revision = 0;  // everything is read at one revision
    const absl::Status read =
        ReadAll(client_.get(), keys_.Jobs(), &revision, [&](const mvccpb::KeyValue& kv) {
          absl::StatusOr<proto::StoredJob> job = ReadJob(kv, revision);
          if (!job.ok()) return job.status();
          jobs.push_back(*std::move(job));
          return absl::OkStatus();
        });
    if (!read.ok()) return read;
    return jobs;
  }

  absl::Status Create() {
    if (absl::Status own = CheckKeysAreOwn(client_.get(), keys_); !own.ok()) return own;
    cluster_id_ = RandomName();
    return writer_->Write({Put(keys_.Schema(), absl::StrCat(kSchemaVersion)),
                           Put(keys_.ClusterId(), cluster_id_), Put(keys_.LastJobId(), "0")});
  }

  absl::Status ReadMeta(const etcdserverpb::TxnResponse& meta) {
    const mvccpb::KeyValue& schema = *OnlyKey(meta, 0);
    int version = 0;
    if (!absl::SimpleAtoi(schema.value(), &version)) {
      return Damaged(schema.key(), "is damaged: no number");
    }
    if (version < kOldestSchemaVersion || version > kSchemaVersion) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s: %s: its schema has version %d, this strata knows versions %d to %d", client_->name(),
          schema.key(), version, kOldestSchemaVersion, kSchemaVersion));
    }
    const mvccpb::KeyValue* id = OnlyKey(meta, 1);
    if (id == nullptr || !IsClusterId(id->value())) {
      return Damaged(keys_.ClusterId(), "is damaged: no id of 16 hexadecimal digits");
    }
    cluster_id_ = id->value();
    const mvccpb::KeyValue* last = OnlyKey(meta, 2);
    if (last == nullptr || !absl::SimpleAtoi(last->value(), &last_job_id_)) {
      return Damaged(keys_.LastJobId(), "is damaged: no number");
    }
    if (version == kSchemaVersion) return absl::OkStatus();
    return writer_->Write({Put(keys_.Schema(), absl::StrCat(kSchemaVersion))});
  }

  absl::StatusOr<proto::StoredJob> ReadJob(const mvccpb::KeyValue& kv, int64_t revision) {
    const std::optional<JobId> id = keys_.JobOf(kv.key());
    if (!id.has_value()) return Damaged(kv.key(), "is no job's key");
    const absl::StatusOr<std::string> data =
        GetSplit(client_.get(), kv, keys_.Parts(*id), revision);
    if (!data.ok()) return data.status();
    proto::StoredJob job;
    if (!job.ParseFromString(*data)) return Damaged(kv.key(), "is damaged: no job");
    if (job.record().job_id() != id->value()) {
      return Damaged(kv.key(), absl::StrCat("is damaged: has job ", job.record().job_id()));
    }
    return job;
  }

  // A failed change is either in what is read, or never takes effect.
  absl::Status LoadSeenBlocks() {
    is_seen_known_ = false;
    if (const absl::Status settled = writer_->Settle(); !settled.ok()) return settled;
    SeenBlocks seen;
    int64_t revision = 0;
    const absl::Status read =
        ReadAll(client_.get(), keys_.SeenBlocks(), &revision, [&](const mvccpb::KeyValue& kv) {
          const std::optional<uint64_t> number = keys_.SeenBlockOf(kv.key());
          if (!number.has_value()) return Damaged(kv.key(), "is no block's key");
          const absl::Status restored = seen.Restore(*number, kv.value());
          return restored.ok() ? restored : Damaged(kv.key(), restored.message());
        });
    if (!read.ok()) return read;
    seen_ = std::move(seen);
    is_seen_known_ = true;
    return absl::OkStatus();
  }

  const std::shared_ptr<EtcdClient> client_;
  const EtcdKeys keys_;
  const std::shared_ptr<FencedWriter> writer_;
  std::string cluster_id_;
  uint32_t last_job_id_ = 0;
  SeenBlocks seen_;
  bool is_seen_known_ = false;  // seen_ equals etcd's content
};

}  // namespace

absl::Status CheckKeysAreOwn(EtcdClient* client, const EtcdKeys& keys) {
  etcdserverpb::TxnRequest request;  // at one revision: another coordinator may be creating the
                                     // state
  *request.add_success() = Get(keys.Schema());
  etcdserverpb::RequestOp* const all = request.add_success();
  *all = Get(keys.prefix(), EtcdKeys::EndOf(keys.prefix()));
  all->mutable_request_range()->set_keys_only(true);
  all->mutable_request_range()->set_limit(2);  // one foreign key is enough
  const auto read = client->Txn(request);
  if (!read.ok()) return read.status();
  if (OnlyKey(*read, 0) != nullptr || read->responses_size() < 2) return absl::OkStatus();
  for (const mvccpb::KeyValue& kv : read->responses(1).response_range().kvs()) {
    if (kv.key() == keys.Leader()) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: %s is there and %s is not: these are not the keys of a cluster of strata, or "
        "damaged; name another cluster, or remove them",
        client->name(), kv.key(), keys.Schema()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<JobStore>> OpenEtcdJobStore(std::shared_ptr<EtcdClient> client,
                                                           std::shared_ptr<FencedWriter> writer) {
  auto store = std::make_unique<EtcdJobStore>(std::move(client), std::move(writer));
  const absl::Status prepared = store->Prepare();
  if (!prepared.ok()) return prepared;
  return store;
}

}  // namespace strata::server
