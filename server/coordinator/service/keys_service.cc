#include "server/coordinator/service/keys_service.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/log.h"

namespace strata::server {

grpc::Status KeysService::Ask(grpc::ServerContext* context, Right right,
                              const std::function<absl::Status(const Caller&)>& ask) {
  const absl::StatusOr<Guest> guest = doorkeeper_->LetIn(*context, right, gate_);
  return ToGrpc(guest.ok() ? ask(guest->caller) : guest.status());
}

grpc::Status KeysService::Join(grpc::ServerContext* context, const proto::JoinRequest* request,
                               proto::IssuedCertificate* reply) {
  return Ask(context, Right::kJoin, [&](const Caller&) {
    absl::StatusOr<proto::IssuedCertificate> issued = access_->Join(*request, absl::Now());
    if (!issued.ok()) {
      doorkeeper_->CountRefused(context->peer(), issued.status());
      return issued.status();
    }
    LogInfo("a %s joins from %s", request->role(), context->peer());
    *reply = *std::move(issued);
    return absl::OkStatus();
  });
}

grpc::Status KeysService::Renew(grpc::ServerContext* context, const proto::RenewRequest* request,
                                proto::IssuedCertificate* reply) {
  return Ask(context, Right::kRenew, [&](const Caller& caller) {
    absl::StatusOr<proto::IssuedCertificate> issued =
        access_->Renew(caller, request->request_pem(), absl::Now());
    if (issued.ok()) *reply = *std::move(issued);
    return issued.status();
  });
}

grpc::Status KeysService::MakeToken(grpc::ServerContext* context,
                                    const proto::MakeTokenRequest* request,
                                    proto::MakeTokenReply* reply) {
  return Ask(context, Right::kRule, [&](const Caller&) {
    const absl::StatusOr<std::string> token = access_->MakeToken(*request, absl::Now());
    if (token.ok()) reply->set_token(*token);
    return token.status();
  });
}

grpc::Status KeysService::ListKeys(grpc::ServerContext* context, const proto::ListKeysRequest*,
                                   proto::ListKeysReply* reply) {
  return Ask(context, Right::kRule, [&](const Caller&) {
    *reply = access_->List(absl::Now());
    return absl::OkStatus();
  });
}

grpc::Status KeysService::Revoke(grpc::ServerContext* context, const proto::RevokeRequest* request,
                                 proto::RevokeReply* reply) {
  return Ask(context, Right::kRule, [&](const Caller&) {
    absl::StatusOr<proto::RevokeReply> revoked = access_->Revoke(*request, absl::Now());
    if (!revoked.ok()) return revoked.status();
    *reply = *std::move(revoked);
    if (!reply->identity().empty()) LogInfo("%s is revoked", reply->identity());
    if (request->tokens()) LogInfo("%d tokens are closed", reply->tokens_closed());
    on_revoked_();
    return absl::OkStatus();
  });
}

}  // namespace strata::server
