#include "server/coordinator/access/access.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/keys/join_token.h"
#include "common/keys/verify.h"

namespace strata::server {

Access::Access(Options options) : options_(std::move(options)), book_(options_.book) {}

std::string Access::authority() const {
  if (!options_.authority.has_value()) return "";
  return keys::FingerprintText(options_.authority->roots().front().fingerprint());
}

std::string Access::Describe() const {
  if (options_.takes_everybody) return "none (--insecure): whoever reaches the port may do all";
  if (!options_.own.has_value()) return "a socket of this user alone";
  return absl::StrCat("mutual TLS, cluster ", options_.own->identity.cluster);
}

absl::StatusOr<Caller> Access::Identify(const std::vector<keys::Certificate>& chain,
                                        absl::Time now) const {
  if (chain.empty()) return Caller{};
  if (!options_.own.has_value()) return absl::UnauthenticatedError("no certificate counts here");
  const auto identity = keys::Verify(chain, options_.own->trust(), now);
  if (!identity.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("it does not take this certificate: ", identity.status().message()));
  }
  Caller caller{Caller::Kind::kMember, *identity, chain.front().not_before()};
  const absl::Status counts = StillCounts(caller);
  if (!counts.ok()) return counts;
  return caller;
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
  return absl::UnauthenticatedError(
      absl::StrCat("the certificate of ", CallerText(caller),
                   " was revoked: its operator can make a token for a new one"));
}

absl::Status Access::HasAuthority() const {
  if (options_.authority.has_value()) return absl::OkStatus();
  return absl::UnimplementedError(
      options_.own.has_value()
          ? "this coordinator issues no certificates: the authority that issued its own does"
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
  KeyBook book = book_;
  const auto grant = book.Join(keys::SecretHash(request.secret()), *role, request.name(), now);
  if (!grant.ok()) return grant.status();
  book.Note(*role, grant->name, authority());
  // A token that was used stays so, whatever comes after it.
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
  KeyBook book = book_;
  const auto grant = book.Renew(identity.role, identity.name, now);
  if (!grant.ok()) return grant.status();
  book.Note(identity.role, identity.name, authority());
  const absl::Status saved = Change(std::move(book));
  if (!saved.ok()) return saved;
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
  const auto token = keys::MakeJoinToken(options_.authority->roots().front().fingerprint());
  if (!token.ok()) return token.status();
  absl::MutexLock lock(&mutex_);
  KeyBook book = book_;
  const absl::Status added = book.AddToken(keys::SecretHash(token->secret), request, now);
  if (!added.ok()) return added;
  const absl::Status saved = Change(std::move(book));
  if (!saved.ok()) return saved;
  return keys::ToText(*token);
}

proto::ListKeysReply Access::List(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  book_.Forget(now);
  proto::KeyBookRecord record = book_.Record();
  proto::ListKeysReply reply;
  if (options_.own.has_value()) reply.set_cluster(options_.own->identity.cluster);
  reply.set_authority(authority());
  *reply.mutable_keys() = std::move(*record.mutable_keys());
  *reply.mutable_tokens() = std::move(*record.mutable_tokens());
  for (proto::OpenToken& token : *reply.mutable_tokens()) token.clear_secret_hash();
  return reply;
}

absl::StatusOr<std::string> Access::Revoke(const proto::RevokeRequest& request, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  KeyBook book = book_;
  const auto who = book.Revoke(request, now);
  if (!who.ok()) return who.status();
  const absl::Status saved = Change(std::move(book));
  if (!saved.ok()) return saved;
  return absl::StrCat(keys::RoleName(who->first), " ", who->second);
}

absl::Status Access::Change(KeyBook book) {
  const absl::Status saved = options_.save ? options_.save(book.Record()) : absl::OkStatus();
  if (saved.ok()) book_ = std::move(book);
  return saved;
}

}  // namespace strata::server
