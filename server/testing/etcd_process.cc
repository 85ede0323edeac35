#include "server/testing/etcd_process.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/os/interfaces.h"
#include "proto/rpc.grpc.pb.h"
#include "server/coordinator/service/etcd_client.h"

namespace strata::server {

absl::Status CheckEtcdIsThere() {
  if (std::filesystem::exists(kEtcd)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      kEtcd, ": is not installed: run deploy/install_packages.sh --tests (etcd-server)"));
}

EtcdProcess::EtcdProcess(std::string folder, Options options, uint16_t port, uint16_t peer_port)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      port_(port),
      peer_port_(peer_port) {}

absl::StatusOr<std::unique_ptr<EtcdProcess>> EtcdProcess::Start(const std::string& folder,
                                                                const Options& options) {
  if (absl::Status there = CheckEtcdIsThere(); !there.ok()) return there;
  absl::Status started;
  for (int tries = 0; tries < kEtcdStartsMax; ++tries) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const std::optional<uint16_t> port = FreePort();
    const std::optional<uint16_t> peer_port = FreePort();
    if (!port.has_value() || !peer_port.has_value()) {
      return absl::ResourceExhaustedError("no port is free");
    }
    std::unique_ptr<EtcdProcess> etcd(new EtcdProcess(folder, options, *port, *peer_port));
    started = etcd->Restart();
    if (started.ok()) return etcd;
  }
  return started;
}

std::string EtcdProcess::endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

EtcdClient::Options EtcdProcess::ClientOptions(absl::Duration deadline) const {
  return {.endpoints = endpoint(),
          .tls = {options_.ca_file, options_.cert_file, options_.key_file},
          .deadline = deadline};
}

std::shared_ptr<EtcdClient> EtcdProcess::Client(absl::Duration deadline) const {
  return *EtcdClient::Open(ClientOptions(deadline));
}

void EtcdProcess::Signal(int signal) {
  process_->Signal(signal);
  siginfo_t stopped;
  if (signal == SIGSTOP) waitid(P_PID, process_->pid(), &stopped, WSTOPPED);
}

void EtcdProcess::Kill() { process_.reset(); }

absl::Status EtcdProcess::Restart() {
  const bool is_tls = !options_.ca_file.empty();
  const std::string client_url = absl::StrCat(is_tls ? "https://" : "http://", endpoint());
  const std::string peer_url = absl::StrCat("http://127.0.0.1:", peer_port_);
  Process::Spec spec;
  spec.args = {kEtcd,
               "--name=test",
               "--logger=zap",
               "--log-level=warn",
               absl::StrCat("--data-dir=", folder_, "/data"),
               absl::StrCat("--listen-client-urls=", client_url),
               absl::StrCat("--advertise-client-urls=", client_url),
               absl::StrCat("--listen-peer-urls=", peer_url),
               absl::StrCat("--initial-advertise-peer-urls=", peer_url),
               absl::StrCat("--initial-cluster=test=", peer_url)};
  if (is_tls) {
    spec.args.insert(spec.args.end(),
                     {absl::StrCat("--trusted-ca-file=", options_.ca_file),
                      absl::StrCat("--cert-file=", options_.cert_file),
                      absl::StrCat("--key-file=", options_.key_file), "--client-cert-auth"});
  }
  spec.args.insert(spec.args.end(), options_.more.begin(), options_.more.end());
  spec.log_path = folder_ + "/etcd.log";
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(spec);
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  const auto client = EtcdClient::Open(ClientOptions(kEtcdLook));
  if (!client.ok()) return client.status();
  const RealClock clock;
  const absl::Time until = clock.Now() + kEtcdStartMax;
  while (true) {
    const absl::Status answers = (*client)->Range(RangeOf("ready")).status();
    if (answers.ok() || clock.Now() > until) return answers;
    if (process_->TryReap().has_value()) {
      return absl::AbortedError(absl::StrCat(kEtcd, ": has ended: see ", spec.log_path));
    }
  }
}

namespace {

const grpc::Status kLost(grpc::StatusCode::UNAVAILABLE, "lost by the test");

}  // namespace

class EtcdProxy::Service {
 public:
  explicit Service(const std::string& etcd)
      : channel_(grpc::CreateChannel(etcd, grpc::InsecureChannelCredentials())),
        kv_(this),
        lease_(channel_) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&kv_);
    builder.RegisterService(&lease_);
    server_ = builder.BuildAndStart();
  }

  int port() const { return port_; }
  void Lose(int count) {
    absl::MutexLock lock(&mutex_);
    lost_ = count;
  }
  void Hold() {
    absl::MutexLock lock(&mutex_);
    stage_ = Stage::kArmed;
  }
  bool Release() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Service::IsHeld));
    stage_ = Stage::kReleased;
    mutex_.Await(absl::Condition(this, &Service::IsDone));
    stage_ = Stage::kIdle;
    return held_succeeded_;
  }

 private:
  enum class Stage { kIdle, kArmed, kHeld, kReleased, kDone };

  class Kv final : public etcdserverpb::KV::Service {
   public:
    explicit Kv(EtcdProxy::Service* service)
        : service_(service), stub_(etcdserverpb::KV::NewStub(service->channel_)) {}
    grpc::Status Range(grpc::ServerContext*, const etcdserverpb::RangeRequest* request,
                       etcdserverpb::RangeResponse* reply) override {
      grpc::ClientContext context;
      return stub_->Range(&context, *request, reply);
    }
    grpc::Status Txn(grpc::ServerContext*, const etcdserverpb::TxnRequest* request,
                     etcdserverpb::TxnResponse* reply) override {
      const bool is_held = service_->MaybeHold();
      grpc::ClientContext context;
      const grpc::Status status = stub_->Txn(&context, *request, reply);
      if (is_held) service_->HeldIsDone(status.ok() && reply->succeeded());
      return service_->IsLost() ? kLost : status;
    }

   private:
    EtcdProxy::Service* const service_;
    const std::unique_ptr<etcdserverpb::KV::Stub> stub_;
  };

  class Lease final : public etcdserverpb::Lease::Service {
   public:
    explicit Lease(std::shared_ptr<grpc::Channel> channel)
        : stub_(etcdserverpb::Lease::NewStub(channel)) {}
    grpc::Status LeaseGrant(grpc::ServerContext*, const etcdserverpb::LeaseGrantRequest* request,
                            etcdserverpb::LeaseGrantResponse* reply) override {
      grpc::ClientContext context;
      return stub_->LeaseGrant(&context, *request, reply);
    }
    grpc::Status LeaseRevoke(grpc::ServerContext*, const etcdserverpb::LeaseRevokeRequest* request,
                             etcdserverpb::LeaseRevokeResponse* reply) override {
      grpc::ClientContext context;
      return stub_->LeaseRevoke(&context, *request, reply);
    }

   private:
    const std::unique_ptr<etcdserverpb::Lease::Stub> stub_;
  };

  bool IsHeld() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stage_ == Stage::kHeld; }
  bool IsReleased() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stage_ == Stage::kReleased;
  }
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stage_ == Stage::kDone; }

  bool MaybeHold() {
    absl::MutexLock lock(&mutex_);
    if (stage_ != Stage::kArmed) return false;
    stage_ = Stage::kHeld;
    mutex_.Await(absl::Condition(this, &Service::IsReleased));
    return true;
  }
  void HeldIsDone(bool succeeded) {
    absl::MutexLock lock(&mutex_);
    held_succeeded_ = succeeded;
    stage_ = Stage::kDone;
  }
  bool IsLost() {
    absl::MutexLock lock(&mutex_);
    return lost_ > 0 && lost_-- > 0;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  int lost_ ABSL_GUARDED_BY(mutex_) = 0;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kIdle;
  bool held_succeeded_ ABSL_GUARDED_BY(mutex_) = false;
  Kv kv_;
  Lease lease_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;  // last member: its threads use the others
};

EtcdProxy::EtcdProxy(const std::string& etcd) : service_(std::make_unique<Service>(etcd)) {}
EtcdProxy::~EtcdProxy() = default;

std::string EtcdProxy::endpoint() const { return absl::StrCat("127.0.0.1:", service_->port()); }
void EtcdProxy::LoseAnswers(int count) { service_->Lose(count); }
void EtcdProxy::HoldNext() { service_->Hold(); }
bool EtcdProxy::ReleaseHeld() { return service_->Release(); }

}  // namespace strata::server
