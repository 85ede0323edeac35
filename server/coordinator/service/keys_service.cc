#include "server/coordinator/service/keys_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/control/credentials.h"
#include "common/counted.h"
#include "common/keys/certificate.h"
#include "common/log.h"
#include "common/os/message_bounds.h"

namespace strata::server {
namespace {

std::string GrantText(const proto::UserGrant& grant) {
  return absl::StrCat(", role ", UserRoleName(grant.role()),
                      grant.namespace_().empty() ? "" : ", namespace ", grant.namespace_());
}

// Describes a token without its secret.
std::string TokenText(const proto::MakeTokenRequest& request) {
  return absl::StrCat("for ", absl::StrJoin(request.roles(), " or "),
                      request.name().empty() ? "" : " ", request.name(), ", ",
                      Counted(request.uses(), "use"), ", ", request.ttl_s(), " s",
                      request.has_grant() ? GrantText(request.grant()) : "");
}

// Describes the holder of an issued certificate.
std::string IssuedText(const proto::IssuedCertificate& issued) {
  const auto chain = keys::CertificatesFromPem(issued.chain_pem());
  const auto identity =
      chain.ok() ? chain->front().identity() : absl::StatusOr<keys::Identity>(chain.status());
  return identity.ok() ? keys::IdentityText(*identity) : "";
}

// Reads a joining member's request. It is in the call's metadata, which gRPC limits to a few KiB,
// because anybody may send it.
absl::StatusOr<proto::JoinRequest> JoinRequestOf(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find(control::kJoinMetadata);
  proto::JoinRequest request;
  if (found != context.client_metadata().end() &&
      request.ParseFromArray(found->second.data(), static_cast<int>(found->second.size()))) {
    const absl::Status bounded = CheckBounds(request);
    return bounded.ok() ? absl::StatusOr<proto::JoinRequest>(std::move(request)) : bounded;
  }
  return absl::InvalidArgumentError(
      "the call does not say who is to join: install the same version on all hosts");
}

}  // namespace

grpc::Status KeysService::StreamedJoin(
    grpc::ServerContext* context,
    OneRequest<proto::JoinRequest, proto::IssuedCertificate>* stream) {
  const absl::StatusOr<Guest> guest = doorkeeper_->LetIn(context, Call::kJoin, gate_);
  if (!guest.ok()) return ToGrpc(guest.status());
  const absl::StatusOr<proto::JoinRequest> asked = JoinRequestOf(*context);
  absl::StatusOr<proto::IssuedCertificate> issued =
      asked.ok() ? access_->Join(*asked, absl::Now()) : asked.status();
  if (!issued.ok()) {
    doorkeeper_->Refuse(*guest, CallName(Call::kJoin), issued.status());
    return ToGrpc(issued.status());
  }
  LogInfo("a %s joins from %s", asked->role(), context->peer());
  doorkeeper_->Note(*guest, CallName(Call::kJoin), IssuedText(*issued));
  // A reply must follow a message. This one is empty; a peer that sends a large one had a token.
  proto::JoinRequest empty;
  return End(stream, ToGrpc(ReadRequest(stream, &empty)), *issued);
}

grpc::Status KeysService::StreamedRenew(
    grpc::ServerContext* context,
    OneRequest<proto::RenewRequest, proto::IssuedCertificate>* stream) {
  return Ask(context, stream, Call::kRenew,
             [&](const Guest& guest, const auto& request, auto* reply) {
               absl::StatusOr<proto::IssuedCertificate> issued =
                   access_->Renew(guest.caller, request.request_pem(), absl::Now());
               if (!issued.ok()) {
                 doorkeeper_->NoteRefused(guest, CallName(Call::kRenew), issued.status());
                 return issued.status();
               }
               *reply = *std::move(issued);
               return absl::OkStatus();
             });
}

grpc::Status KeysService::StreamedMakeToken(
    grpc::ServerContext* context,
    OneRequest<proto::MakeTokenRequest, proto::MakeTokenReply>* stream) {
  return Ask(context, stream, Call::kMakeToken,
             [&](const Guest& guest, const auto& request, auto* reply) {
               const absl::StatusOr<std::string> token = access_->MakeToken(request, absl::Now());
               if (!token.ok()) {
                 doorkeeper_->NoteRefused(guest, CallName(Call::kMakeToken), token.status());
                 return token.status();
               }
               reply->set_token(*token);
               doorkeeper_->Note(guest, CallName(Call::kMakeToken), TokenText(request));
               return absl::OkStatus();
             });
}

grpc::Status KeysService::StreamedListKeys(
    grpc::ServerContext* context,
    OneRequest<proto::ListKeysRequest, proto::ListKeysReply>* stream) {
  return Ask(context, stream, Call::kListKeys, [&](const Guest&, const auto& request, auto* reply) {
    *reply = access_->List(absl::Now(), request);
    return absl::OkStatus();
  });
}

grpc::Status KeysService::StreamedRevoke(
    grpc::ServerContext* context, OneRequest<proto::RevokeRequest, proto::RevokeReply>* stream) {
  return Ask(
      context, stream, Call::kRevoke, [&](const Guest& guest, const auto& request, auto* reply) {
        absl::StatusOr<proto::RevokeReply> revoked = access_->Revoke(request, absl::Now());
        if (!revoked.ok()) {
          doorkeeper_->NoteRefused(guest, CallName(Call::kRevoke), revoked.status());
          return revoked.status();
        }
        *reply = *std::move(revoked);
        if (!reply->identity().empty()) LogInfo("%s is revoked", reply->identity());
        if (request.tokens()) LogInfo("%d tokens are closed", reply->tokens_closed());
        const std::string closed =
            request.tokens()
                ? absl::StrCat(" ", Counted(reply->tokens_closed(), "token"), " closed")
                : "";
        doorkeeper_->Note(guest, CallName(Call::kRevoke), absl::StrCat(reply->identity(), closed));
        on_revoked_();
        return absl::OkStatus();
      });
}

}  // namespace strata::server
