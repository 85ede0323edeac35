#include "common/control/keys_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/control/channel.h"
#include "common/control/credentials.h"
#include "common/control/dial.h"
#include "common/keys/certificate.h"
#include "common/keys/private_key.h"
#include "proto/keys.grpc.pb.h"

namespace strata::control {
namespace {

absl::Status TooLate(const KeysOptions& options, const std::string& why) {
  return GaveUp(options.coordinator, options.credentials, options.deadline, why);
}

// A call that may have taken effect is not repeated; one that a standby answered, or that nobody
// received, has had no effect.
template <typename Method>
absl::Status Call(const KeysOptions& options, const Method& method) {
  const absl::Time deadline = absl::Now() + options.deadline;
  AddressRound round(options.coordinator);
  while (true) {
    const auto channel = ChannelTo(options.coordinator, round, options.credentials, deadline);
    absl::Status status = channel.status();
    if (channel.ok()) {
      const auto stub = proto::Keys::NewStub(*channel);
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(deadline));
      status = FromGrpc(method(*stub, &context));
      if (absl::IsDeadlineExceeded(status)) return TooLate(options, "it does not answer");
      // Not cancelled by us: a coordinator that stops, or begins to lead, cancels calls.
      if (absl::IsCancelled(status)) status = absl::UnavailableError("it ends the call");
      if (absl::IsUnauthenticated(status)) {
        return Refused(round.current(), std::string(status.message()));
      }
      const bool stands_by = IsStandbyText(std::string(status.message()));
      if (absl::IsUnavailable(status) && !stands_by) {
        return TooLate(options, std::string(status.message()));
      }
    }
    if (!absl::IsUnavailable(status)) return status;
    const bool all_tried = round.OnFailed(std::string(status.message()));
    if (absl::Now() + (all_tried ? kPauseBetweenRounds : absl::ZeroDuration()) >= deadline) {
      return TooLate(options, round.Reasons());
    }
    if (all_tried) absl::SleepFor(kPauseBetweenRounds);
  }
}

// Makes a key, requests a certificate for it, and returns both as a file.
template <typename Method>
absl::StatusOr<keys::KeyFile> GetCertificate(const KeysOptions& options, const Method& method) {
  const absl::StatusOr<keys::PrivateKey> key = keys::PrivateKey::Make();
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> request = keys::MakeRequestPem(*key);
  if (!request.ok()) return request.status();
  proto::IssuedCertificate issued;
  const absl::Status status =
      Call(options, [&](proto::Keys::Stub& stub, grpc::ClientContext* context) {
        return method(stub, context, *request, &issued);
      });
  if (!status.ok()) return status;
  return keys::ParseKeyFile(key->ToPem() + issued.chain_pem() + issued.roots_pem(),
                            "the coordinator's answer");
}

}  // namespace

absl::StatusOr<keys::KeyFile> Join(const KeysOptions& options, const keys::JoinToken& token,
                                   keys::Role role, const std::string& name) {
  KeysOptions joining = options;
  joining.credentials = Credentials::Joining(token.authority);
  return GetCertificate(joining, [&](proto::Keys::Stub& stub, grpc::ClientContext* context,
                                     const std::string& pem, proto::IssuedCertificate* issued) {
    proto::JoinRequest request;
    request.set_secret(token.secret);
    request.set_role(keys::RoleName(role));
    request.set_name(name);
    request.set_request_pem(pem);
    const std::string bytes = request.SerializeAsString();
    if (bytes.size() > kJoinBytesMax) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the name is too long");
    }
    context->AddMetadata(kJoinMetadata, bytes);
    return stub.Join(context, proto::JoinRequest(), issued);
  });
}

absl::StatusOr<keys::KeyFile> Renew(const KeysOptions& options) {
  return GetCertificate(options, [&](proto::Keys::Stub& stub, grpc::ClientContext* context,
                                     const std::string& pem, proto::IssuedCertificate* issued) {
    proto::RenewRequest request;
    request.set_request_pem(pem);
    return stub.Renew(context, request, issued);
  });
}

absl::StatusOr<std::string> MakeToken(const KeysOptions& options,
                                      const proto::MakeTokenRequest& request) {
  proto::MakeTokenReply reply;
  const absl::Status status =
      Call(options, [&](proto::Keys::Stub& stub, grpc::ClientContext* context) {
        return stub.MakeToken(context, request, &reply);
      });
  if (!status.ok()) return status;
  return reply.token();
}

absl::StatusOr<proto::ListKeysReply> ListKeys(const KeysOptions& options) {
  proto::ListKeysReply all;
  proto::ListKeysRequest request;
  request.set_pages(true);
  while (true) {
    proto::ListKeysReply page;
    const absl::Status status =
        Call(options, [&](proto::Keys::Stub& stub, grpc::ClientContext* context) {
          return stub.ListKeys(context, request, &page);
        });
    if (!status.ok()) return status;
    // A page that makes no progress would repeat forever.
    const bool more = page.more() && !page.keys().empty();
    if (more) {
      const proto::IssuedKey& last = *page.keys().rbegin();
      const bool goes_on =
          last.role() != request.after_role() || last.name() != request.after_name();
      if (!goes_on) return all;
      request.set_after_role(last.role());
      request.set_after_name(last.name());
    }
    page.clear_more();
    all.MergeFrom(page);
    if (!more) return all;
  }
}

absl::StatusOr<proto::RevokeReply> Revoke(const KeysOptions& options,
                                          const proto::RevokeRequest& request) {
  proto::RevokeReply reply;
  const absl::Status status =
      Call(options, [&](proto::Keys::Stub& stub, grpc::ClientContext* context) {
        return stub.Revoke(context, request, &reply);
      });
  if (!status.ok()) return status;
  return reply;
}

}  // namespace strata::control
