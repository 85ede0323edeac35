#include "server/coordinator/service/fenced_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/require.h"
#include "server/coordinator/service/etcd_client.h"

namespace strata::server {
namespace {

// Each failed call can have changed the expected last write at most once.
constexpr int kTriesMax = 10;

}  // namespace

FencedWriter::FencedWriter(std::shared_ptr<EtcdClient> client, Leadership leadership)
    : client_(std::move(client)), leadership_(std::move(leadership)), keys_(leadership_.cluster) {}

std::string FencedWriter::NextName() {
  absl::MutexLock lock(&mutex_);
  return TakeName();
}

std::string FencedWriter::TakeName() {
  return absl::StrFormat("%016x-%d", leadership_.create_revision, ++names_);
}

absl::Status FencedWriter::Write(const std::vector<etcdserverpb::RequestOp>& ops) {
  STRATA_REQUIRE(ops.size() <= kOpsMax);
  absl::MutexLock lock(&mutex_);
  const std::string name = TakeName();
  for (int tries = 0; tries < kTriesMax; ++tries) {
    etcdserverpb::TxnRequest request;
    *request.add_compare() = CreatedAt(keys_.Leader(), leadership_.create_revision);
    *request.add_compare() = ChangedAt(keys_.LastWrite(), last_write_);
    for (const etcdserverpb::RequestOp& op : ops) *request.add_success() = op;
    *request.add_success() = Put(keys_.LastWrite(), name);
    *request.add_failure() = Get(keys_.Leader());
    *request.add_failure() = Get(keys_.LastWrite());
    const auto txn = client_->Txn(request);
    if (!txn.ok()) return txn.status();
    if (txn->succeeded()) {
      last_write_ = txn->header().revision();
      return absl::OkStatus();
    }
    bool was_made = false;
    const absl::Status why = Explain(*txn, name, &was_made);
    if (!why.ok() || was_made) return why;
  }
  return absl::AbortedError(
      absl::StrFormat("%s: %s: somebody else writes it, too", client_->name(), keys_.LastWrite()));
}

absl::StatusOr<etcdserverpb::TxnResponse> FencedWriter::Read(
    const std::vector<etcdserverpb::RequestOp>& gets) {
  etcdserverpb::TxnRequest request;
  *request.add_compare() = CreatedAt(keys_.Leader(), leadership_.create_revision);
  for (const etcdserverpb::RequestOp& get : gets) *request.add_success() = get;
  *request.add_failure() = Get(keys_.Leader());
  *request.add_failure() = Get(keys_.LastWrite());
  auto txn = client_->Txn(request);
  if (!txn.ok() || txn->succeeded()) return txn;
  bool was_made = false;
  absl::MutexLock lock(&mutex_);
  const absl::Status why = Explain(*txn, "", &was_made);
  if (!why.ok()) return why;
  return absl::InternalError(absl::StrCat(client_->name(), ": a comparison failed that holds"));
}

absl::Status FencedWriter::Explain(const etcdserverpb::TxnResponse& txn, const std::string& name,
                                   bool* was_made) {
  const mvccpb::KeyValue* leader = OnlyKey(txn, 0);
  if (leader == nullptr || leader->create_revision() != leadership_.create_revision) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: %s: another coordinator leads%s", client_->name(), keys_.Leader(),
                        leader == nullptr ? ", or soon will: this one's lease has ended"
                                          : absl::StrCat(": ", leader->value())));
  }
  const mvccpb::KeyValue* last = OnlyKey(txn, 1);
  last_write_ = last == nullptr ? 0 : last->mod_revision();
  *was_made = last != nullptr && last->value() == name;
  return absl::OkStatus();
}

}  // namespace strata::server
