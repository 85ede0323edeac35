#include "server/coordinator/service/keys_service.h"

#include "absl/time/clock.h"
#include "common/log.h"
#include "server/coordinator/service/identify.h"

namespace strata::server {

grpc::Status KeysService::Ask(grpc::ServerContext* context, Right right,
                              const std::function<absl::Status(const Caller&)>& ask) {
  const absl::StatusOr<Gate::Pass> pass = gate_->Enter(context->peer());
  if (!pass.ok()) return ToGrpc(pass.status());
  const absl::StatusOr<Caller> caller = Admit(*context, *access_, right);
  return ToGrpc(caller.ok() ? ask(*caller) : caller.status());
}

grpc::Status KeysService::Join(grpc::ServerContext* context, const proto::JoinRequest* request,
                               proto::IssuedCertificate* reply) {
  return Ask(context, Right::kJoin, [&](const Caller&) {
    absl::StatusOr<proto::IssuedCertificate> issued = access_->Join(*request, absl::Now());
    if (!issued.ok()) {
      LogWarning("%s was refused a certificate: %s", context->peer(),
                 std::string(issued.status().message()));
      return issued.status();
    }
    LogInfo("a %s joins from %s: %s", request->role(), context->peer(), request->name());
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
    const absl::StatusOr<std::string> who = access_->Revoke(*request, absl::Now());
    if (!who.ok()) return who.status();
    LogInfo("%s is revoked", *who);
    reply->set_identity(*who);
    on_revoked_();
    return absl::OkStatus();
  });
}

}  // namespace strata::server
