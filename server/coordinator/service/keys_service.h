#ifndef STRATA_SERVER_COORDINATOR_SERVICE_KEYS_SERVICE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_KEYS_SERVICE_H_

#include <functional>
#include <type_traits>
#include <utility>

#include "proto/keys.grpc.pb.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/service/admission.h"
#include "server/coordinator/service/doorkeeper.h"
#include "server/coordinator/service/one_request.h"

namespace strata::server {

// The gRPC service about keys.
class KeysService final : public proto::Keys::Service {
 public:
  // The arguments outlive the service. `gate` limits calls; `on_revoked` is called after each
  // revocation.
  KeysService(Access* access, Doorkeeper* doorkeeper, Gate* gate, std::function<void()> on_revoked)
      : access_(access), doorkeeper_(doorkeeper), gate_(gate), on_revoked_(std::move(on_revoked)) {
    MarkMethodStreamed(/*Join=*/0, HandlerOf(this, &KeysService::StreamedJoin));
    MarkMethodStreamed(/*Renew=*/1, HandlerOf(this, &KeysService::StreamedRenew));
    MarkMethodStreamed(/*MakeToken=*/2, HandlerOf(this, &KeysService::StreamedMakeToken));
    MarkMethodStreamed(/*ListKeys=*/3, HandlerOf(this, &KeysService::StreamedListKeys));
    MarkMethodStreamed(/*Revoke=*/4, HandlerOf(this, &KeysService::StreamedRevoke));
  }

 private:
  grpc::Status StreamedJoin(grpc::ServerContext* context,
                            OneRequest<proto::JoinRequest, proto::IssuedCertificate>* stream);
  grpc::Status StreamedRenew(grpc::ServerContext* context,
                             OneRequest<proto::RenewRequest, proto::IssuedCertificate>* stream);
  grpc::Status StreamedMakeToken(
      grpc::ServerContext* context,
      OneRequest<proto::MakeTokenRequest, proto::MakeTokenReply>* stream);
  grpc::Status StreamedListKeys(grpc::ServerContext* context,
                                OneRequest<proto::ListKeysRequest, proto::ListKeysReply>* stream);
  grpc::Status StreamedRevoke(grpc::ServerContext* context,
                              OneRequest<proto::RevokeRequest, proto::RevokeReply>* stream);

  // Reads the request of a permitted caller, and runs `ask`.
  template <typename Request, typename Reply>
  grpc::Status Ask(
      grpc::ServerContext* context, OneRequest<Request, Reply>* stream, Call call,
      const std::type_identity_t<std::function<absl::Status(const Guest&, const Request&, Reply*)>>&
          ask) {
    Request request;
    const absl::StatusOr<Guest> guest = doorkeeper_->LetIn(context, call, gate_, stream, &request);
    if (!guest.ok()) return ToGrpc(guest.status());
    Reply reply;
    return End(stream, ToGrpc(ask(*guest, request, &reply)), reply);
  }

  Access* const access_;
  Doorkeeper* const doorkeeper_;
  Gate* const gate_;
  const std::function<void()> on_revoked_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_KEYS_SERVICE_H_
