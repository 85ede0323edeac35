#include "server/coordinator/access/access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/control/credentials.h"
#include "common/keys/join_token.h"
#include "common/keys/verify.h"

namespace strata::server {

Access::Access(Options options) : options_(std::move(options)), book_(options_.book) {}

std::string Access::authority() const {
  if (!options_.authority.has_value()) return "";
  return keys::FingerprintText(options_.authority->roots().front().fingerprint());
}

std::vector<std::string> Access::authorities() const {
  std::vector<std::string> fingerprints;
  if (!options_.authority.has_value()) return fingerprints;
  for (const keys::Certificate& root : options_.authority->roots()) {
    fingerprints.push_back(keys::FingerprintText(root.fingerprint()));
  }
  return fingerprints;
}

std::string Access::Describe() const {
  if (options_.takes_everybody) return "none (--insecure): whoever reaches the port may do all";
  if (!options_.own.has_value()) return "a socket of this user alone";
  return absl::StrCat(control::kHasKeys, options_.own->identity.cluster);
}

absl::StatusOr<Caller> Access::Identify(const std::vector<keys::Certificate>& chain,
                                        absl::Time now) const {
  if (chain.empty()) return Caller{};
  if (!options_.own.has_value()) return absl::UnauthenticatedError("no certificate counts here");
  const keys::Judge judge{.clock = "the coordinator's clock",
                          .makes_tokens = options_.authority.has_value()};
  const auto identity = keys::Verify(chain, options_.own->trust(), now, judge);
  if (!identity.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("it does not take this certificate: ", identity.status().message()));
  }
  return Anew({Caller::Kind::kMember, *identity, chain.front().not_before()}, now);
}

std::shared_ptr<const Policy> Access::PolicyAt(absl::Time now) const {
  return options_.policy ? options_.policy(now) : std::make_shared<const Policy>();
}

UserRights Access::RightsOf(const std::string& user, const Policy& policy) const {
  return policy.RightsOf(user, book_.GrantOf(user));
}

absl::StatusOr<Caller> Access::Anew(const Caller& caller, absl::Time now) const {
  Caller anew = caller;
  const std::shared_ptr<const Policy> policy = PolicyAt(now);
  absl::MutexLock lock(&mutex_);
  const absl::Status counts = StillCountsNow(caller);
  if (!counts.ok()) return counts;
  if (anew.is_user()) anew.rights = RightsOf(anew.identity.name, *policy);
  return anew;
}

bool Access::has_tenants(absl::Time now) const {
  if (PolicyAt(now)->lists_anybody()) return true;
  absl::MutexLock lock(&mutex_);
  return book_.has_grants();
}

ProtectionRules Access::rules(absl::Time now) const {
  const std::shared_ptr<const Policy> policy = PolicyAt(now);
  return {.has_keys = options_.own.has_value(),
          .allows_plain = policy->allow_plain(),
          .trusts_network = policy->trusted_network()};
}

QueueRights Access::SlotsOf(const std::string& user, absl::Time now) const {
  if (user.empty()) return {};  // the coordinator's
  const std::shared_ptr<const Policy> policy = PolicyAt(now);
  absl::MutexLock lock(&mutex_);
  const UserRights rights = RightsOf(user, *policy);
  return {.may_submit = rights.role >= proto::UserPolicy::SUBMIT,
          .may_run_programs = rights.role >= proto::UserPolicy::RUN_PROGRAMS,
          .slots = rights.slots,
          .revoked_until = book_.RevokedUntil(user)};
}

absl::Status Access::StillCounts(const Caller& caller) const {
  absl::MutexLock lock(&mutex_);
  return StillCountsNow(caller);
}

absl::Status Access::StillCountsNow(const Caller& caller) const {
  if (caller.kind != Caller::Kind::kMember) return absl::OkStatus();
  const keys::Identity& identity = caller.identity;
  if (!book_.IsRevoked(identity.role, identity.name, caller.certificate_begins)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "the certificate of ", CallerText(caller), " was revoked: ",
      options_.authority.has_value()
          ? absl::StrCat(keys::RenewHint(identity.role, identity.name),
                         ", which counts once the old key file is removed")
          : "one that your own authority issues after that counts, and `strata keys import` makes "
            "a key file of it"));
}

std::string Access::ShownRoot(absl::Time now) const {
  for (const keys::Certificate& root : options_.own->roots) {
    const keys::Trust alone{options_.own->identity.cluster, {root}};
    if (keys::Verify(options_.own->chain, alone, now).ok()) return root.fingerprint();
  }
  return options_.own->roots.front().fingerprint();
}

absl::Status Access::HasAuthority() const {
  if (options_.authority.has_value()) return absl::OkStatus();
  return absl::UnimplementedError(
      options_.own.has_value()
          ? "this coordinator issues no certificates: the authority that issued its own does, and "
            "`strata keys import` makes key files of them"
          : "this coordinator has no keys: `strata keys init --state DIR` makes them, with its "
            "state's folder, and it takes them at its next start");
}

absl::StatusOr<proto::IssuedCertificate> Access::Join(const proto::JoinRequest& request,
                                                      absl::Time now) {
  const absl::Status can = HasAuthority();
  if (!can.ok()) return can;
  const auto asked = keys::CertificateRequest::FromPem(request.request_pem());
  if (!asked.ok()) return asked.status();
  const std::optional<keys::Role> role = keys::ParseRole(request.role());
  if (!role.has_value()) return absl::InvalidArgumentError("no such role");
  absl::MutexLock lock(&mutex_);
  // A stranger's guess costs only a lookup.
  if (!book_.HasToken(keys::SecretHash(request.secret()))) {
    return KeyBook::UnknownToken(*role, request.name());
  }
  KeyBook book = book_;
  const auto grant = book.Join(keys::SecretHash(request.secret()), *role, request.name(), now);
  if (!grant.ok()) return grant.status();
  book.Note(*role, grant->name, authority());
  // A used token stays used, whatever fails later.
  const absl::Status saved = Change(std::move(book));
  if (!saved.ok()) return saved;
  return Issue(*asked, *role, *grant);
}

absl::StatusOr<proto::IssuedCertificate> Access::Renew(const Caller& caller,
                                                       const std::string& request_pem,
                                                       absl::Time now) {
  const absl::Status can = HasAuthority();
  if (!can.ok()) return can;
  if (caller.kind != Caller::Kind::kMember) {
    return absl::UnauthenticatedError("only a member's certificate is renewed");
  }
  const auto asked = keys::CertificateRequest::FromPem(request_pem);
  if (!asked.ok()) return asked.status();
  const keys::Identity& identity = caller.identity;
  absl::MutexLock lock(&mutex_);
  const absl::Status counts = StillCountsNow(caller);
  if (!counts.ok()) return counts;
  const auto grant = book_.Renew(identity.role, identity.name, now);
  if (!grant.ok()) return grant.status();
  book_.Note(identity.role, identity.name, authority());
  unsaved_ = true;
  return Issue(*asked, identity.role, *grant);
}

absl::StatusOr<proto::IssuedCertificate> Access::Issue(const keys::CertificateRequest& request,
                                                       keys::Role role,
                                                       const KeyBook::Grant& grant) {
  const keys::Authority& issuer = *options_.authority;
  const auto certificate =
      issuer.Issue(request, {issuer.cluster(), role, grant.name}, grant.begins, grant.ends);
  if (!certificate.ok()) return certificate.status();
  proto::IssuedCertificate issued;
  issued.set_chain_pem(certificate->ToPem());
  issued.set_roots_pem(issuer.RootsPem());
  return issued;
}

absl::StatusOr<std::string> Access::MakeToken(const proto::MakeTokenRequest& request,
                                              absl::Time now) {
  const absl::Status can = HasAuthority();
  if (!can.ok()) return can;
  const auto token = keys::MakeJoinToken(ShownRoot(now));
  if (!token.ok()) return token.status();
  absl::MutexLock lock(&mutex_);
  KeyBook book = book_;
  const absl::Status added = book.AddToken(keys::SecretHash(token->secret), request, now);
  if (!added.ok()) return added;
  const absl::Status saved = Change(std::move(book));
  if (!saved.ok()) return saved;
  return keys::ToText(*token);
}

proto::ListKeysReply Access::List(absl::Time now, const proto::ListKeysRequest& request,
                                  size_t bytes_max) {
  const std::shared_ptr<const Policy> policy = PolicyAt(now);
  absl::MutexLock lock(&mutex_);
  book_.Forget(now);
  proto::KeyBookRecord record = book_.Record();
  proto::ListKeysReply reply;
  if (options_.own.has_value()) reply.set_cluster(options_.own->identity.cluster);
  reply.set_authority(authority());
  const bool is_first = !request.pages() || request.after_role().empty();
  if (is_first) *reply.mutable_tokens() = std::move(*record.mutable_tokens());
  for (proto::OpenToken& token : *reply.mutable_tokens()) token.clear_secret_hash();
  const auto after = std::pair(keys::ParseRole(request.after_role()), request.after_name());
  size_t bytes = 0;
  for (proto::IssuedKey& key : *record.mutable_keys()) {
    if (!is_first && std::pair(keys::ParseRole(key.role()), key.name()) <= after) continue;
    if (key.role() == keys::RoleName(keys::Role::kUser)) {
      const UserRights rights = RightsOf(key.name(), *policy);
      key.mutable_grant()->set_role(rights.role);
      key.mutable_grant()->set_namespace_(rights.tenant);
    }
    bytes += key.ByteSizeLong();
    if (request.pages() && bytes > bytes_max && !reply.keys().empty()) {
      reply.set_more(true);
      break;
    }
    *reply.add_keys() = std::move(key);
  }
  return reply;
}

absl::StatusOr<proto::RevokeReply> Access::Revoke(const proto::RevokeRequest& request,
                                                  absl::Time now) {
  absl::MutexLock lock(&mutex_);
  KeyBook book = book_;
  proto::RevokeReply reply;
  if (!request.tokens() || !request.name().empty()) {
    const auto who = book.Revoke(request, now);
    if (!who.ok()) return who.status();
    reply.set_identity(absl::StrCat(keys::RoleName(who->first), " ", who->second));
  }
  if (request.tokens()) reply.set_tokens_closed(static_cast<uint32_t>(book.CloseTokens()));
  const absl::Status saved = Change(std::move(book));
  if (!saved.ok()) return saved;
  return reply;
}

absl::Status Access::Change(KeyBook book) {
  const absl::Status saved = options_.save ? options_.save(book.Record()) : absl::OkStatus();
  if (!saved.ok()) return saved;
  book_ = std::move(book);
  unsaved_ = false;
  return absl::OkStatus();
}

absl::Status Access::SaveRenewals() {
  absl::MutexLock lock(&mutex_);
  return unsaved_ ? Change(book_) : absl::OkStatus();
}

}  // namespace strata::server
