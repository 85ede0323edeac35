#include "server/coordinator/service/keys_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/counted.h"
#include "common/keys/certificate.h"
#include "common/log.h"

namespace strata::server {
namespace {

std::string GrantText(const proto::UserGrant& grant) {
  return absl::StrCat(", role ", UserRoleName(grant.role()),
                      grant.namespace_().empty() ? "" : ", namespace ", grant.namespace_());
}

// Of a token, all but its secret.
std::string TokenText(const proto::MakeTokenRequest& request) {
  return absl::StrCat("for ", absl::StrJoin(request.roles(), " or "),
                      request.name().empty() ? "" : " ", request.name(), ", ",
                      Counted(request.uses(), "use"), ", ", request.ttl_s(), " s",
                      request.has_grant() ? GrantText(request.grant()) : "");
}

// Whose certificate was issued.
std::string IssuedText(const proto::IssuedCertificate& issued) {
  const auto chain = keys::CertificatesFromPem(issued.chain_pem());
  const auto identity =
      chain.ok() ? chain->front().identity() : absl::StatusOr<keys::Identity>(chain.status());
  return identity.ok() ? keys::IdentityText(*identity) : "";
}

}  // namespace

grpc::Status KeysService::Ask(grpc::ServerContext* context, Call call,
                              const std::function<absl::Status(const Guest&)>& ask) {
  const absl::StatusOr<Guest> guest = doorkeeper_->LetIn(*context, call, gate_);
  return ToGrpc(guest.ok() ? ask(*guest) : guest.status());
}

grpc::Status KeysService::Join(grpc::ServerContext* context, const proto::JoinRequest* request,
                               proto::IssuedCertificate* reply) {
  return Ask(context, Call::kJoin, [&](const Guest& guest) {
    absl::StatusOr<proto::IssuedCertificate> issued = access_->Join(*request, absl::Now());
    if (!issued.ok()) {
      doorkeeper_->Refuse(guest, CallName(Call::kJoin), issued.status());
      return issued.status();
    }
    LogInfo("a %s joins from %s", request->role(), context->peer());
    *reply = *std::move(issued);
    doorkeeper_->Note(guest, CallName(Call::kJoin), IssuedText(*reply));
    return absl::OkStatus();
  });
}

grpc::Status KeysService::Renew(grpc::ServerContext* context, const proto::RenewRequest* request,
                                proto::IssuedCertificate* reply) {
  return Ask(context, Call::kRenew, [&](const Guest& guest) {
    absl::StatusOr<proto::IssuedCertificate> issued =
        access_->Renew(guest.caller, request->request_pem(), absl::Now());
    if (!issued.ok()) {
      doorkeeper_->NoteRefused(guest, CallName(Call::kRenew), issued.status());
      return issued.status();
    }
    *reply = *std::move(issued);
    return absl::OkStatus();
  });
}

grpc::Status KeysService::MakeToken(grpc::ServerContext* context,
                                    const proto::MakeTokenRequest* request,
                                    proto::MakeTokenReply* reply) {
  return Ask(context, Call::kMakeToken, [&](const Guest& guest) {
    const absl::StatusOr<std::string> token = access_->MakeToken(*request, absl::Now());
    if (!token.ok()) {
      doorkeeper_->NoteRefused(guest, CallName(Call::kMakeToken), token.status());
      return token.status();
    }
    reply->set_token(*token);
    doorkeeper_->Note(guest, CallName(Call::kMakeToken), TokenText(*request));
    return absl::OkStatus();
  });
}

grpc::Status KeysService::ListKeys(grpc::ServerContext* context, const proto::ListKeysRequest*,
                                   proto::ListKeysReply* reply) {
  return Ask(context, Call::kListKeys, [&](const Guest&) {
    *reply = access_->List(absl::Now());
    return absl::OkStatus();
  });
}

grpc::Status KeysService::Revoke(grpc::ServerContext* context, const proto::RevokeRequest* request,
                                 proto::RevokeReply* reply) {
  return Ask(context, Call::kRevoke, [&](const Guest& guest) {
    absl::StatusOr<proto::RevokeReply> revoked = access_->Revoke(*request, absl::Now());
    if (!revoked.ok()) {
      doorkeeper_->NoteRefused(guest, CallName(Call::kRevoke), revoked.status());
      return revoked.status();
    }
    *reply = *std::move(revoked);
    if (!reply->identity().empty()) LogInfo("%s is revoked", reply->identity());
    if (request->tokens()) LogInfo("%d tokens are closed", reply->tokens_closed());
    const std::string closed =
        request->tokens() ? absl::StrCat(" ", Counted(reply->tokens_closed(), "token"), " closed")
                          : "";
    doorkeeper_->Note(guest, CallName(Call::kRevoke), absl::StrCat(reply->identity(), closed));
    on_revoked_();
    return absl::OkStatus();
  });
}

}  // namespace strata::server
