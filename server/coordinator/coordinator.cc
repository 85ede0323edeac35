#include "server/coordinator/coordinator.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/control/channel.h"
#include "common/limits/descriptors.h"
#include "common/unique_fd.h"
#include "server/coordinator/service/acceptor.h"
#include "server/coordinator/service/coordinator_service.h"
#include "server/coordinator/service/job_store.h"

namespace strata::server {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace(300);
constexpr int kKeepaliveMs = 5000;
constexpr int kPingIntervalMsMin = 1000;
// How long the beginning of HTTP/2 may take.
constexpr int kHandshakeMs = 10000;
constexpr int kStreamsPerConnectionMax = 64;
constexpr uint64_t kSpareDescriptors = 16;

class GrpcCoordinator final : public Coordinator {
 public:
  explicit GrpcCoordinator(Options options) : options_(std::move(options)) {}
  ~GrpcCoordinator() override { Stop(); }

  absl::Status Start() override {
    const absl::Status descriptors =
        EnsureDescriptors("strata coordinator", CoordinatorDescriptors(options_.limits));
    if (!descriptors.ok()) return descriptors;
    auto acceptor = Acceptor::Create({.listen = options_.listen,
                                      .also = options_.also_listen,
                                      .descriptors_max = ConnectionDescriptorsMax()});
    if (!acceptor.ok()) return acceptor.status();
    acceptor_ = *std::move(acceptor);
    absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(options_.state_dir);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    CoordinatorCore::Options core;
    core.heartbeat = options_.heartbeat;
    core.membership.dead_after = options_.dead_after;
    core.membership.reconnect_grace = options_.reconnect_grace;
    core.jobs.restart_patience = options_.restart_patience;
    core.jobs.settle_after = options_.settle_after;
    core.add_memory_parts = options_.add_memory_parts;
    service_ = std::make_unique<CoordinatorService>(core, options_.limits, store_.get(),
                                                    options_.open_store);
    const absl::Status started = service_->Start();
    if (!started.ok()) return started;
    return Serve();
  }

  void Stop() override {
    if (acceptor_ != nullptr) acceptor_->Stop();
    if (server_ != nullptr) {
      service_->EndFollowers();
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
      server_->Wait();
    }
    if (service_ != nullptr) service_->Stop();
    server_.reset();
    acceptor_.reset();
    hand_over_.reset();
    service_.reset();
    store_.reset();
  }

  int port() const override { return acceptor_ == nullptr ? 0 : acceptor_->port(); }

 private:
  absl::Status Serve() {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(options_.idle_after)));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMs());
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kPingIntervalMsMin);
    builder.SetMaxReceiveMessageSize(control::kMessageBytesMax);
    builder.SetMaxSendMessageSize(control::kMessageBytesMax);
    hand_over_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return absl::InternalError("gRPC does not start");
    acceptor_->Start({.take = [this](UniqueFd fd) { Take(std::move(fd)); },
                      .refused = [this] { service_->CountRefusedConnection(); },
                      .stranger = [this] { service_->CountStranger(); }});
    return absl::OkStatus();
  }

  void Take(UniqueFd fd) {
    // As gRPC does for the connections that it takes itself: what a peer that has vanished does not
    // confirm.
    const int timeout_ms = KeepaliveTimeoutMs();
    setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd.Release();
    hand_over_->HandleNewConnection(&connection);
  }

  // What the process needs besides connections stays free.
  int ConnectionDescriptorsMax() const {
    return static_cast<int>(CoordinatorDescriptors(options_.limits).total - kSpareDescriptors);
  }

  // A daemon may be silent for as long as the options say.
  int KeepaliveTimeoutMs() const {
    const absl::Duration timeout = std::min(options_.dead_after, absl::Hours(24));
    return std::max(kKeepaliveMs, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  }

  const Options options_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> hand_over_;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status CheckPositive(const char* option, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", absl::FormatDuration(value), " is not positive"));
}

}  // namespace

absl::Status Coordinator::Options::Validate() const {
  if (listen.empty())
    return absl::InvalidArgumentError("listen: HOST:PORT or unix:/PATH is required");
  if (state_dir.empty()) return absl::InvalidArgumentError("state: a directory is required");
  if (heartbeat >= dead_after) {
    return absl::InvalidArgumentError(absl::StrCat("dead_after: ", absl::FormatDuration(dead_after),
                                                   " is not longer than a heartbeat (",
                                                   absl::FormatDuration(heartbeat), ")"));
  }
  const absl::Status counts = limits.Validate();
  const absl::Status idle = CheckPositive("idle_after", idle_after);
  if (!counts.ok() || !idle.ok()) return counts.ok() ? idle : counts;
  return CheckPositive("heartbeat", heartbeat);
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::make_unique<GrpcCoordinator>(std::move(options));
}

}  // namespace strata::server
