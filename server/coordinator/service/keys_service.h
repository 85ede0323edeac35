#ifndef STRATA_SERVER_COORDINATOR_SERVICE_KEYS_SERVICE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_KEYS_SERVICE_H_

#include <functional>
#include <utility>

#include "proto/keys.grpc.pb.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/service/admission.h"
#include "server/coordinator/service/doorkeeper.h"

namespace strata::server {

// The gRPC service about keys.
class KeysService final : public proto::Keys::Service {
 public:
  // All outlive the service. `gate` is that of calls; `on_revoked` is called after each revocation.
  KeysService(Access* access, Doorkeeper* doorkeeper, Gate* gate, std::function<void()> on_revoked)
      : access_(access), doorkeeper_(doorkeeper), gate_(gate), on_revoked_(std::move(on_revoked)) {}

  grpc::Status Join(grpc::ServerContext* context, const proto::JoinRequest* request,
                    proto::IssuedCertificate* reply) override;
  grpc::Status Renew(grpc::ServerContext* context, const proto::RenewRequest* request,
                     proto::IssuedCertificate* reply) override;
  grpc::Status MakeToken(grpc::ServerContext* context, const proto::MakeTokenRequest* request,
                         proto::MakeTokenReply* reply) override;
  grpc::Status ListKeys(grpc::ServerContext* context, const proto::ListKeysRequest* request,
                        proto::ListKeysReply* reply) override;
  grpc::Status Revoke(grpc::ServerContext* context, const proto::RevokeRequest* request,
                      proto::RevokeReply* reply) override;

 private:
  // Runs `ask` for one who may.
  grpc::Status Ask(grpc::ServerContext* context, Call call,
                   const std::function<absl::Status(const Guest&)>& ask);

  Access* const access_;
  Doorkeeper* const doorkeeper_;
  Gate* const gate_;
  const std::function<void()> on_revoked_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_KEYS_SERVICE_H_
