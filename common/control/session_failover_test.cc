// A session with several coordinators: which one it dials, and which one it believes.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/control/addresses.h"
#include "common/control/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/control.grpc.pb.h"

namespace strata::control {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Registers each daemon with the next of its epochs, sends a command, and keeps the connection
// until told to break it. Or stands by.
class FakeCoordinator final : public proto::Coordinator::Service {
 public:
  explicit FakeCoordinator(std::vector<uint64_t> epochs) : epochs_(std::move(epochs)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override {
    BreakLines();
    server_->Shutdown();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  void StandBy(const std::string& leader) {
    absl::MutexLock lock(&mutex_);
    stands_by_ = true;
    leader_ = leader;
  }
  void BreakLines() {
    absl::MutexLock lock(&mutex_);
    ++broken_;
  }
  // Returns the epochs that registrations have named, once there are `count`.
  std::vector<uint64_t> Named(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto are_there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return named_.size() >= count;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&are_there), kPatience);
    return named_;
  }

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::CoordinatorMessage, proto::DaemonMessage>* stream) override {
    proto::DaemonMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    proto::CoordinatorMessage registered, command;
    int broken = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (stands_by_) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, StandbyText(leader_));
      }
      named_.push_back(message.register_().epoch());
      const size_t index = std::min(named_.size(), epochs_.size()) - 1;
      registered.mutable_registered()->set_epoch(epochs_[index]);
      command.mutable_stop_node()->set_job_id(static_cast<uint32_t>(epochs_[index]));
      broken = broken_;
    }
    registered.mutable_registered()->set_cluster_id("c");
    registered.mutable_registered()->set_heartbeat_ms(50);
    stream->Write(registered);
    stream->Write(command);
    const auto ends = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return broken_ > broken || context->IsCancelled();
    };
    while (true) {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&ends), absl::Milliseconds(20))) break;
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
  }

 private:
  const std::vector<uint64_t> epochs_;
  int port_ = 0;
  absl::Mutex mutex_;
  bool stands_by_ ABSL_GUARDED_BY(mutex_) = false;
  std::string leader_ ABSL_GUARDED_BY(mutex_);
  int broken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> named_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

// A daemon and the commands that it received.
class Daemon {
 public:
  explicit Daemon(const std::string& coordinator) {
    Session::Options options;
    options.coordinator = coordinator;
    options.credentials = Credentials::Insecure();
    options.registration.set_name("w1");
    session_ = Session::Create(options, {.on_message =
                                             [this](const proto::CoordinatorMessage& message) {
                                               absl::MutexLock lock(&mutex_);
                                               commands_.push_back(message.stop_node().job_id());
                                             },
                                         .heartbeat = [] { return proto::Heartbeat(); },
                                         .running_jobs = [] { return std::vector<uint32_t>(); },
                                         .on_lost = [](const absl::Status&) {}});
  }
  absl::Status Start() { return session_->Start(); }
  std::vector<uint32_t> Commands(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto are_there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return commands_.size() >= count;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&are_there), kPatience);
    return commands_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<uint32_t> commands_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Session> session_;
};

TEST(SessionFailoverTest, FindsTheOneThatLeadsAndLaterTheNext) {
  FakeCoordinator a({5}), b({6});
  a.StandBy(b.address());
  Daemon daemon(absl::StrCat("127.0.0.1:1,", a.address(), ",", b.address()));
  ASSERT_TRUE(daemon.Start().ok());
  EXPECT_THAT(daemon.Commands(1), ElementsAre(6));
  EXPECT_THAT(b.Named(1), ElementsAre(0));
}

TEST(SessionFailoverTest, TakesNoCommandsOfAnEarlierLeaderAnyMore) {
  FakeCoordinator coordinator({5, 4, 0, 7});
  Daemon daemon(coordinator.address());
  ASSERT_TRUE(daemon.Start().ok());
  EXPECT_THAT(daemon.Commands(1), ElementsAre(5));
  coordinator.BreakLines();
  EXPECT_THAT(daemon.Commands(2), ElementsAre(5, 7)) << "those of epochs 4 and 0 are dropped";
  EXPECT_THAT(coordinator.Named(4), ElementsAre(0, 5, 5, 5));
}

TEST(SessionFailoverTest, WithoutEpochsNothingIsDropped) {
  FakeCoordinator coordinator({0});
  Daemon daemon(coordinator.address());
  ASSERT_TRUE(daemon.Start().ok());
  EXPECT_THAT(daemon.Commands(1), ElementsAre(0));
  coordinator.BreakLines();
  EXPECT_THAT(daemon.Commands(2), ElementsAre(0, 0));
  EXPECT_THAT(coordinator.Named(2), ElementsAre(0, 0));
}

TEST(SessionFailoverTest, OfOneThatStandsByAloneItSaysWhoLeads) {
  FakeCoordinator coordinator({1});
  coordinator.StandBy("x:1");
  Session::Options options;
  options.coordinator = coordinator.address();
  options.credentials = Credentials::Insecure();
  options.connect_deadline = absl::Milliseconds(300);
  const auto session =
      Session::Create(options, {.on_message = [](const auto&) {},
                                .heartbeat = [] { return proto::Heartbeat(); },
                                .running_jobs = [] { return std::vector<uint32_t>(); },
                                .on_lost = [](const auto&) {}});
  EXPECT_EQ(session->Start(), absl::UnavailableError(
                                  absl::StrCat("coordinator at ", coordinator.address(),
                                               " cannot be reached (tried for 300ms): x:1 leads")));
}

}  // namespace
}  // namespace strata::control
