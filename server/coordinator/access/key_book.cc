#include "server/coordinator/access/key_book.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/keys/join_token.h"

namespace strata::server {
namespace {

// How long a name is listed after its last certificate expired.
constexpr absl::Duration kListed = absl::Hours(24 * 30);
// The resolution of times in certificates.
constexpr absl::Duration kStep = absl::Seconds(1);

bool CanJoin(const std::optional<keys::Role>& role) {
  return role.has_value() && *role != keys::Role::kCoordinator;
}

absl::Status CheckGrant(const proto::UserGrant& grant) {
  if (!proto::UserPolicy::Role_IsValid(grant.role())) {
    return absl::InvalidArgumentError("no such role of a user");
  }
  if (grant.namespace_().empty()) return absl::OkStatus();
  const absl::Status good = keys::CheckName(grant.namespace_());
  if (good.ok()) return good;
  return absl::InvalidArgumentError(absl::StrCat("namespace: ", good.message()));
}

absl::Status CheckRequest(const proto::MakeTokenRequest& request) {
  if (request.roles().empty()) return absl::InvalidArgumentError("a token needs a role");
  for (const std::string& role : request.roles()) {
    if (CanJoin(keys::ParseRole(role))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("role \"", role, "\": a token is for server, worker or user"));
  }
  const bool for_user =
      std::find(request.roles().begin(), request.roles().end(), "user") != request.roles().end();
  if (for_user && request.name().empty()) {
    return absl::InvalidArgumentError("a token for a user needs the user's name");
  }
  if (!request.name().empty()) {
    const absl::Status name = keys::CheckName(request.name());
    if (!name.ok()) return name;
  }
  if (request.has_grant()) {
    if (!for_user || request.roles_size() != 1) {
      return absl::InvalidArgumentError("only a user has a role and a namespace of the policy");
    }
    const absl::Status grant = CheckGrant(request.grant());
    if (!grant.ok()) return grant;
  }
  const absl::Duration ttl = absl::Seconds(request.ttl_s());
  if (ttl <= absl::ZeroDuration() || ttl > KeyBook::kTtlMax) {
    return absl::InvalidArgumentError("a token is good for 1 s to 30 days");
  }
  if (request.uses() < 1 || request.uses() > KeyBook::kUsesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token is good for 1 to ", KeyBook::kUsesMax, " uses"));
  }
  return absl::OkStatus();
}

std::string Text(keys::Role role, const std::string& name) {
  return absl::StrCat(keys::RoleName(role), " ", name);
}

}  // namespace

KeyBook::KeyBook(proto::KeyBookRecord record) {
  for (proto::IssuedKey& key : *record.mutable_keys()) {
    const std::optional<keys::Role> role = keys::ParseRole(key.role());
    if (role.has_value()) keys_[{*role, key.name()}] = std::move(key);
  }
  for (proto::OpenToken& token : *record.mutable_tokens()) {
    tokens_[token.secret_hash()] = std::move(token);
  }
}

proto::KeyBookRecord KeyBook::Record() const {
  proto::KeyBookRecord record;
  for (const auto& [name, key] : keys_) *record.add_keys() = key;
  for (const auto& [hash, token] : tokens_) *record.add_tokens() = token;
  return record;
}

absl::Status KeyBook::AddToken(const std::string& secret_hash,
                               const proto::MakeTokenRequest& request, absl::Time now) {
  const absl::Status good = CheckRequest(request);
  if (!good.ok()) return good;
  Forget(now);
  if (tokens_.size() >= kTokensMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kTokensMax, " tokens are open already: wait until one is too late"));
  }
  proto::OpenToken& token = tokens_[secret_hash];
  token.set_secret_hash(secret_hash);
  *token.mutable_roles() = request.roles();
  token.set_name(request.name());
  token.set_uses_left(request.uses());
  if (request.has_grant()) *token.mutable_grant() = request.grant();
  token.set_expires_ms(absl::ToUnixMillis(now + absl::Seconds(request.ttl_s())));
  return absl::OkStatus();
}

absl::Status KeyBook::UnknownToken(keys::Role role, const std::string& name) {
  return absl::PermissionDeniedError(absl::StrCat(
      "the token is not known: it was used already, is too late, was closed or is of another "
      "cluster; ",
      keys::TokenCommand(role, name), " makes a new one"));
}

absl::StatusOr<KeyBook::Grant> KeyBook::Join(const std::string& secret_hash, keys::Role role,
                                             const std::string& wanted, absl::Time now) {
  const auto found = tokens_.find(secret_hash);
  if (found == tokens_.end()) return UnknownToken(role, wanted);
  proto::OpenToken& token = found->second;
  const absl::Time expires = absl::FromUnixMillis(token.expires_ms());
  if (now >= expires) {
    return absl::PermissionDeniedError(
        absl::StrCat("the token was good until ", absl::FormatTime(expires, absl::UTCTimeZone()),
                     ": ", keys::TokenCommand(role, token.name()), " makes a new one"));
  }
  const auto& roles = token.roles();
  if (std::find(roles.begin(), roles.end(), keys::RoleName(role)) == roles.end()) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the token is for a ", absl::StrJoin(roles, " or "), ", not for a ", keys::RoleName(role),
        ": ", keys::TokenCommand(role, wanted), " makes one for a ", keys::RoleName(role)));
  }
  const std::string name = wanted.empty() ? token.name() : wanted;
  const absl::Status good = keys::CheckName(name);
  if (!good.ok()) return good;
  if (!token.name().empty() && token.name() != name) {
    const std::string other = role == keys::Role::kUser ? "" : absl::StrCat(" with --name ", name);
    return absl::PermissionDeniedError(
        absl::StrCat("the token is for ", Text(role, token.name()), ", not for ", Text(role, name),
                     ": join with --name ", token.name(), ", or with a token of ",
                     keys::TokenCommand(role, name), other));
  }
  const auto key = keys_.find({role, name});
  const bool in_use = key != keys_.end() && now < absl::FromUnixMillis(key->second.expires_ms()) &&
                      key->second.revoked_ms() < key->second.begins_ms();
  // A token that names the member replaces it, as the operator wishes.
  if (in_use && token.name().empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat(Text(role, name),
                     " has a certificate already: choose another name with --name, or let the "
                     "operator say `strata keys revoke ",
                     name, "` first"));
  }
  const absl::StatusOr<Grant> grant = GrantTo({role, name}, now);
  if (!grant.ok()) return grant;
  // A token without a grant leaves the existing one.
  if (token.has_grant()) *keys_[{role, name}].mutable_grant() = token.grant();
  token.set_uses_left(token.uses_left() - 1);
  if (token.uses_left() == 0) tokens_.erase(found);
  return grant;
}

absl::StatusOr<KeyBook::Grant> KeyBook::Renew(keys::Role role, const std::string& name,
                                              absl::Time now) {
  return GrantTo({role, name}, now);
}

absl::StatusOr<KeyBook::Grant> KeyBook::GrantTo(const Name& name, absl::Time now) {
  if (keys_.size() >= kKeysMax && keys_.count(name) == 0) {
    Forget(now);
    if (keys_.size() >= kKeysMax) {
      return absl::ResourceExhaustedError(absl::StrCat(kKeysMax, " names have certificates"));
    }
  }
  proto::IssuedKey& key = keys_[name];
  const bool is_user = name.first == keys::Role::kUser;
  Grant grant{name.second, now - kClockDifference, now + (is_user ? kUserLife : kDaemonLife)};
  if (key.revoked_ms() != 0) {
    grant.begins = std::max(grant.begins, absl::FromUnixMillis(key.revoked_ms()) + kStep);
  }
  key.set_role(keys::RoleName(name.first));
  key.set_name(name.second);
  key.set_issued_ms(absl::ToUnixMillis(now));
  key.set_begins_ms(absl::ToUnixMillis(grant.begins));
  key.set_expires_ms(absl::ToUnixMillis(grant.ends));
  return grant;
}

void KeyBook::Note(keys::Role role, const std::string& name, const std::string& authority) {
  const auto key = keys_.find({role, name});
  if (key != keys_.end()) key->second.set_authority(authority);
}

absl::StatusOr<std::pair<keys::Role, std::string>> KeyBook::Revoke(
    const proto::RevokeRequest& request, absl::Time now) {
  const std::optional<keys::Role> role = keys::ParseRole(request.role());
  if (!request.role().empty() && !CanJoin(role)) {
    return absl::InvalidArgumentError(
        absl::StrCat("role \"", request.role(), "\": server, worker or user can be revoked"));
  }
  std::vector<Name> found;
  for (const auto& [name, key] : keys_) {
    if (name.second == request.name() && (!role.has_value() || *role == name.first)) {
      found.push_back(name);
    }
  }
  // A certificate of the user's own authority, which was not issued here, has no entry yet.
  if (found.empty() && role.has_value() && keys::CheckName(request.name()).ok()) {
    found.push_back({*role, request.name()});
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("nobody has the name ", request.name(),
                                            ": `strata keys list` shows who has one"));
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", Text(found[0].first, found[0].second), " and ",
                     Text(found[1].first, found[1].second), ": say which with --role"));
  }
  proto::IssuedKey& key = keys_[found[0]];
  key.set_role(keys::RoleName(found[0].first));
  key.set_name(found[0].second);
  // A certificate issued right afterwards is valid at once and not revoked.
  key.set_revoked_ms(std::max(absl::ToUnixMillis(now - kStep), key.begins_ms()));
  for (auto it = tokens_.begin(); it != tokens_.end();) {
    it = it->second.name() == request.name() ? tokens_.erase(it) : std::next(it);
  }
  return found[0];
}

size_t KeyBook::CloseTokens() {
  const size_t open = tokens_.size();
  tokens_.clear();
  return open;
}

const proto::UserGrant* KeyBook::GrantOf(const std::string& user) const {
  const auto key = keys_.find({keys::Role::kUser, user});
  return key == keys_.end() || !key->second.has_grant() ? nullptr : &key->second.grant();
}

bool KeyBook::has_grants() const {
  return std::any_of(keys_.begin(), keys_.end(),
                     [](const auto& key) { return key.second.has_grant(); });
}

bool KeyBook::IsRevoked(keys::Role role, const std::string& name, absl::Time begins) const {
  const auto key = keys_.find({role, name});
  if (key == keys_.end() || key->second.revoked_ms() == 0) return false;
  return absl::ToUnixMillis(begins) <= key->second.revoked_ms();
}

absl::Time KeyBook::RevokedUntil(const std::string& user) const {
  const auto key = keys_.find({keys::Role::kUser, user});
  if (key == keys_.end() || key->second.revoked_ms() == 0) return absl::InfinitePast();
  if (key->second.begins_ms() > key->second.revoked_ms()) return absl::InfinitePast();
  return absl::FromUnixMillis(key->second.revoked_ms()) + kStep;
}

void KeyBook::Forget(absl::Time now) {
  for (auto it = tokens_.begin(); it != tokens_.end();) {
    it = now >= absl::FromUnixMillis(it->second.expires_ms()) ? tokens_.erase(it) : std::next(it);
  }
  for (auto it = keys_.begin(); it != keys_.end();) {
    // Revoked entries stay: certificates of another authority may live longer.
    const bool is_old = it->second.revoked_ms() == 0 &&
                        now >= absl::FromUnixMillis(it->second.expires_ms()) + kListed;
    it = is_old ? keys_.erase(it) : std::next(it);
  }
}

}  // namespace strata::server
