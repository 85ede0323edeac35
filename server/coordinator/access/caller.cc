#include "server/coordinator/access/caller.h"

#include "absl/strings/str_cat.h"

namespace strata::server {
namespace {

// What members of a role may do.
bool MayMember(keys::Role role, Right right) {
  const bool is_daemon = role == keys::Role::kServer || role == keys::Role::kWorker;
  switch (right) {
    case Right::kJoin:
      return true;  // the token decides
    case Right::kRenew:
      return is_daemon || role == keys::Role::kUser;
    case Right::kServe:
      return is_daemon;
    case Right::kUse:
      return role == keys::Role::kUser;
    case Right::kRule:
      return false;
  }
  return false;
}

std::string RightText(Right right) {
  switch (right) {
    case Right::kJoin:
      return "join";
    case Right::kRenew:
      return "renew a certificate";
    case Right::kServe:
      return "be a server or worker";
    case Right::kUse:
      return "submit, cancel and look at jobs";
    case Right::kRule:
      return "rule over the cluster's keys: the coordinator's user on its host may";
  }
  return "";
}

}  // namespace

std::string CallerText(const Caller& caller) {
  if (caller.kind == Caller::Kind::kMember) return keys::IdentityText(caller.identity);
  return caller.kind == Caller::Kind::kOwner ? "the coordinator's user" : "a stranger";
}

absl::Status Allow(const Caller& caller, Right right) {
  switch (caller.kind) {
    case Caller::Kind::kOwner:
      return absl::OkStatus();
    case Caller::Kind::kStranger:
      if (right == Right::kJoin) return absl::OkStatus();
      return absl::UnauthenticatedError(
          "it takes only those who show a certificate of its cluster: `strata keys join` with a "
          "token gets one");
    case Caller::Kind::kMember:
      if (MayMember(caller.identity.role, right)) return absl::OkStatus();
      return absl::PermissionDeniedError(
          absl::StrCat(CallerText(caller), " may not ", RightText(right)));
  }
  return absl::PermissionDeniedError("unknown caller");
}

absl::Status AllowRegistration(const Caller& caller, const proto::Register& registration) {
  const absl::Status may = Allow(caller, Right::kServe);
  if (!may.ok() || caller.kind != Caller::Kind::kMember) return may;
  const bool is_server = caller.identity.role == keys::Role::kServer;
  const bool same_role = registration.role() == (is_server ? proto::SERVER : proto::WORKER);
  if (same_role && registration.name() == caller.identity.name) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "its certificate is that of ", CallerText(caller), ", not of a ",
      registration.role() == proto::SERVER ? "server" : "worker", " ", registration.name()));
}

}  // namespace strata::server
