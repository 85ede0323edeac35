#include "server/coordinator/testing/etcd_proxy.h"

#include <grpcpp/grpcpp.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/etcd/rpc.grpc.pb.h"

namespace strata::server {
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
  std::unique_ptr<grpc::Server> server_;  // the last: its threads use all of it
};

EtcdProxy::EtcdProxy(const std::string& etcd) : service_(std::make_unique<Service>(etcd)) {}
EtcdProxy::~EtcdProxy() = default;

std::string EtcdProxy::endpoint() const { return absl::StrCat("127.0.0.1:", service_->port()); }
void EtcdProxy::LoseAnswers(int count) { service_->Lose(count); }
void EtcdProxy::HoldNext() { service_->Hold(); }
bool EtcdProxy::ReleaseHeld() { return service_->Release(); }

}  // namespace strata::server
