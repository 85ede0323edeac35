#include "server/coordinator/service/front.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/control/channel.h"

namespace strata::server {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace(300);
constexpr int kKeepaliveMs = 5000;
constexpr int kPingIntervalMsMin = 1000;
// How long the HTTP/2 handshake may take.
constexpr int kHandshakeMs = 10000;
constexpr int kStreamsPerConnectionMax = 64;

// Accepts peers without a certificate, too: they may join, and others are told per call what is
// wrong with theirs (`Admit`). TLS itself verifies that the peer holds its certificate's key.
std::shared_ptr<grpc::ServerCredentials> TlsCredentialsOf(const keys::KeyFile& own) {
  // A joining member knows only the authority's fingerprint, so the authority is shown, too.
  const auto provider = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      own.RootsPem(), std::vector<grpc::experimental::IdentityKeyCertPair>{
                          {own.key.ToPem(), own.ChainPem() + own.RootsPem()}});
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsServerCredentials(options);
}

// Gives everybody the same answer.
class Refuser final : public grpc::CallbackGenericService {
 public:
  explicit Refuser(std::function<std::string()> text) : text_(std::move(text)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    class Reactor final : public grpc::ServerGenericBidiReactor {
     public:
      explicit Reactor(const std::string& text) {
        Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, text));
      }
      void OnDone() override { const std::unique_ptr<Reactor> ends(this); }
    };
    return std::make_unique<Reactor>(text_()).release();  // it deletes itself
  }

 private:
  const std::function<std::string()> text_;
};

class GrpcFront final : public Front {
 public:
  explicit GrpcFront(const Options& options)
      : silence_ms_(std::max(kKeepaliveMs, static_cast<int>(absl::ToInt64Milliseconds(
                                               std::min(options.silence, absl::Hours(24)))))) {}
  ~GrpcFront() override { Stop(); }

  absl::Status Start(const Options& options, const std::vector<grpc::Service*>& services,
                     std::unique_ptr<Refuser> refuser) {
    refuser_ = std::move(refuser);
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(options.idle_after)));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence_ms_);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kPingIntervalMsMin);
    builder.SetMaxReceiveMessageSize(control::kMessageBytesMax);
    builder.SetMaxSendMessageSize(control::kMessageBytesMax);
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    hand_over_plain_ = builder.experimental().AddExternalConnectionAcceptor(
        Type::FROM_FD, grpc::InsecureServerCredentials());
    if (options.own.has_value()) {
      hand_over_ = builder.experimental().AddExternalConnectionAcceptor(
          Type::FROM_FD, TlsCredentialsOf(*options.own));
    }
    for (grpc::Service* service : services) builder.RegisterService(service);
    if (refuser_ != nullptr) builder.RegisterCallbackGenericService(refuser_.get());
    server_ = builder.BuildAndStart();
    return server_ == nullptr ? absl::InternalError("gRPC does not start") : absl::OkStatus();
  }

  void Take(UniqueFd fd, bool is_own) override {
    // The same timeout that gRPC sets on connections that it accepts itself: for data that a
    // vanished peer does not acknowledge.
    setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms_, sizeof(silence_ms_));
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd.Release();
    HandOver* const to =
        is_own || hand_over_ == nullptr ? hand_over_plain_.get() : hand_over_.get();
    to->HandleNewConnection(&connection);
  }

  void Stop() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_->Wait();
    server_.reset();
    hand_over_.reset();
    hand_over_plain_.reset();
  }

 private:
  using HandOver = grpc::experimental::ExternalConnectionAcceptor;

  const int silence_ms_;
  std::unique_ptr<Refuser> refuser_;
  std::unique_ptr<HandOver> hand_over_;  // with TLS; null: there are no keys
  std::unique_ptr<HandOver> hand_over_plain_;
  std::unique_ptr<grpc::Server> server_;
};

absl::StatusOr<std::unique_ptr<Front>> Make(const Front::Options& options,
                                            const std::vector<grpc::Service*>& services,
                                            std::unique_ptr<Refuser> refuser) {
  auto front = std::make_unique<GrpcFront>(options);
  const absl::Status started = front->Start(options, services, std::move(refuser));
  if (!started.ok()) return started;
  return front;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Front>> Front::Serve(const Options& options,
                                                    const std::vector<grpc::Service*>& services) {
  return Make(options, services, nullptr);
}

absl::StatusOr<std::unique_ptr<Front>> Front::Refuse(const Options& options,
                                                     std::function<std::string()> text) {
  return Make(options, {}, std::make_unique<Refuser>(std::move(text)));
}

}  // namespace strata::server
