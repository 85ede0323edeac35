#include "common/control/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "absl/strings/str_format.h"

namespace strata::control {
namespace {

constexpr int kReconnectMsMin = 50;
constexpr int kReconnectMsMax = 1000;
constexpr int kConnectTimeoutMs = 5000;
// A host that vanished without closing its connections is noticed by pings.
constexpr int kKeepaliveMs = 5000;
constexpr int kKeepaliveTimeoutMs = 5000;

grpc::ChannelArguments CommonArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments = CommonArguments();
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMsMin);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMsMax);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::shared_ptr<grpc::Channel> ChannelOn(UniqueFd fd) {
  return grpc::CreateCustomInsecureChannelFromFd("coordinator", fd.Release(), CommonArguments());
}

absl::Status FromGrpc(const grpc::Status& status) {
  // gRPC and Abseil number their codes alike.
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::Status Unreachable(const std::string& address, const std::string& tried_for,
                         const std::string& why) {
  return absl::UnavailableError(
      absl::StrFormat("coordinator at %s cannot be reached (tried for %s)%s%s", address, tried_for,
                      why.empty() ? "" : ": ", why));
}

}  // namespace strata::control
