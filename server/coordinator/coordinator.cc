#include "server/coordinator/coordinator.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/control/channel.h"
#include "common/limits/descriptors.h"
#include "server/coordinator/coordinator_service.h"
#include "server/coordinator/job_store.h"
#include "server/coordinator/listen_check.h"

namespace strata::server {
namespace {

constexpr std::chrono::milliseconds kShutdownGrace(300);
constexpr int kKeepaliveMs = 5000;
constexpr int kPingIntervalMsMin = 1000;

class GrpcCoordinator final : public Coordinator {
 public:
  explicit GrpcCoordinator(Options options) : options_(std::move(options)) {}
  ~GrpcCoordinator() override { Stop(); }

  absl::Status Start() override {
    const absl::Status descriptors =
        EnsureDescriptors("strata coordinator", CoordinatorDescriptors(options_.limits));
    if (!descriptors.ok()) return descriptors;
    const absl::Status listenable = CheckListenable(options_.listen);
    if (!listenable.ok()) return listenable;
    absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Open(options_.state_dir);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    CoordinatorCore::Options core;
    core.heartbeat = options_.heartbeat;
    core.membership.dead_after = options_.dead_after;
    core.membership.reconnect_grace = options_.reconnect_grace;
    core.jobs.restart_patience = options_.restart_patience;
    core.jobs.settle_after = options_.settle_after;
    service_ = std::make_unique<CoordinatorService>(core, options_.limits, store_.get());
    const absl::Status started = service_->Start();
    if (!started.ok()) return started;
    return Listen();
  }

  void Stop() override {
    if (server_ != nullptr) {
      service_->EndFollowers();
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
      server_->Wait();
    }
    if (service_ != nullptr) service_->Stop();
    server_.reset();
    service_.reset();
    store_.reset();
  }

  int port() const override { return port_; }

 private:
  absl::Status Listen() {
    grpc::ServerBuilder builder;
    // Two coordinators on one port would share its connections between them.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KeepaliveTimeoutMs());
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kPingIntervalMsMin);
    builder.SetMaxReceiveMessageSize(control::kMessageBytesMax);
    builder.SetMaxSendMessageSize(control::kMessageBytesMax);
    builder.AddListeningPort(options_.listen, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ != 0) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", options_.listen, ": the port was taken just now"));
  }

  // A daemon may be silent for as long as the options say.
  int KeepaliveTimeoutMs() const {
    const absl::Duration timeout = std::min(options_.dead_after, absl::Hours(24));
    return std::max(kKeepaliveMs, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  }

  const Options options_;
  int port_ = 0;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<grpc::Server> server_;
};

absl::Status CheckPositive(const char* option, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", absl::FormatDuration(value), " is not positive"));
}

}  // namespace

absl::Status Coordinator::Options::Validate() const {
  if (listen.empty()) return absl::InvalidArgumentError("listen: HOST:PORT is required");
  if (state_dir.empty()) return absl::InvalidArgumentError("state: a directory is required");
  if (heartbeat >= dead_after) {
    return absl::InvalidArgumentError(absl::StrCat("dead_after: ", absl::FormatDuration(dead_after),
                                                   " is not longer than a heartbeat (",
                                                   absl::FormatDuration(heartbeat), ")"));
  }
  const absl::Status counts = limits.Validate();
  return counts.ok() ? CheckPositive("heartbeat", heartbeat) : counts;
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(Options options) {
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::make_unique<GrpcCoordinator>(std::move(options));
}

}  // namespace strata::server
