#include "common/control/renewal.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_split.h"
#include "common/keys/certificate_request.h"
#include "common/keys/key_file.h"

namespace strata::control {
namespace {

// After one that failed.
constexpr absl::Duration kPause = absl::Minutes(5);

// Whether it is exactly those authorities that the file trusts.
bool Trusts(const keys::KeyFile& file, const std::string& authorities) {
  const std::set<std::string> wanted = absl::StrSplit(authorities, ',');
  std::set<std::string> trusted;
  for (const keys::Certificate& root : file.roots) {
    trusted.insert(keys::FingerprintText(root.fingerprint()));
  }
  return trusted == wanted;
}

}  // namespace

void Renewal::OnRegistered(const std::string& authorities, absl::Time now) {
  key_.reset();
  due_at_ = absl::InfiniteFuture();
  if (authorities.empty() || credentials_.path().empty()) return;
  const absl::StatusOr<keys::KeyFile> file = credentials_.Keys();
  if (!file.ok()) return;  // it is in use until the next connection, which will say why it fails
  due_at_ = Trusts(*file, authorities) ? keys::RenewAt(file->chain.front()) : now;
}

std::optional<proto::DaemonMessage> Renewal::Due(absl::Time now) {
  if (now < due_at_) return std::nullopt;
  due_at_ = now + kPause;  // where no answer comes
  absl::StatusOr<keys::PrivateKey> key = keys::PrivateKey::Make();
  if (!key.ok()) return std::nullopt;
  const absl::StatusOr<std::string> request = keys::MakeRequestPem(*key);
  if (!request.ok()) return std::nullopt;
  key_ = *std::move(key);
  proto::DaemonMessage message;
  message.mutable_renew()->set_request_pem(*request);
  return message;
}

absl::Status Renewal::OnRenewed(const proto::CertificateRenewed& answer, absl::Time now) {
  if (!key_.has_value()) return absl::FailedPreconditionError("it was not asked for");
  const keys::PrivateKey key = *key_;
  key_.reset();
  const absl::Status replaced =
      answer.error().empty() ? Replace(answer, key) : absl::InternalError(answer.error());
  due_at_ = now + kPause;
  const absl::StatusOr<keys::KeyFile> file = credentials_.Keys();
  if (replaced.ok() && file.ok()) {
    due_at_ = std::max(due_at_, keys::RenewAt(file->chain.front()));
  }
  return replaced;
}

absl::Status Renewal::Replace(const proto::CertificateRenewed& answer,
                              const keys::PrivateKey& key) const {
  const absl::StatusOr<keys::KeyFile> file =
      keys::ParseKeyFile(key.ToPem() + answer.chain_pem() + answer.roots_pem(), "the answer");
  if (!file.ok()) return file.status();
  return keys::WriteKeyFile(credentials_.path(), *file);
}

}  // namespace strata::control
