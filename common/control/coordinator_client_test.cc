// Streams that a coordinator cancels: one that stops does so with calls that arrive after it has
// ended the others. Also the peer at a Unix socket. The rest of the client is tested in
// server/coordinator.
#include "common/control/coordinator_client.h"

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/session.h"
#include "common/os/unix_socket.h"
#include "common/testing/other_user.h"
#include "common/testing/short_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/control.grpc.pb.h"

namespace strata::control {
namespace {

// Cancels the first call of each kind; a later follower is told that job 7 has finished.
class CancellingCoordinator final : public proto::Coordinator::Service {
 public:
  grpc::Status Follow(grpc::ServerContext*, const proto::FollowRequest*,
                      grpc::ServerWriter<proto::FollowEvent>* writer) override {
    if (follows_++ == 0) return grpc::Status(grpc::StatusCode::CANCELLED, "");
    proto::FollowEvent event;
    event.mutable_status()->set_job_id(7);
    event.mutable_status()->set_state(proto::FINISHED);
    writer->Write(event);
    return grpc::Status::OK;
  }
  grpc::Status GetTrace(grpc::ServerContext*, const proto::GetTraceRequest*,
                        grpc::ServerWriter<proto::TraceBatch>*) override {
    return grpc::Status(grpc::StatusCode::CANCELLED, "");
  }

  // As a coordinator that stops right after accepting the job.
  grpc::Status Submit(grpc::ServerContext*, const proto::SubmitRequest* request,
                      proto::SubmitReply* reply) override {
    const absl::MutexLock lock(&mutex_);
    submitted_.push_back(request->request_id());
    if (submitted_.size() == 1) return grpc::Status(grpc::StatusCode::CANCELLED, "");
    if (submitted_.size() == 2) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "");
    reply->set_job_id(7);
    return grpc::Status::OK;
  }

  int follows() const { return follows_; }
  std::vector<uint64_t> submitted() const {
    const absl::MutexLock lock(&mutex_);
    return submitted_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<uint64_t> submitted_ ABSL_GUARDED_BY(mutex_);  // ids of requests
  std::atomic<int> follows_ = 0;
};

class CancelledTest : public ::testing::Test {
 protected:
  CancelledTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&coordinator_);
    server_ = builder.BuildAndStart();
    client_ = CoordinatorClient::Create({.coordinator = absl::StrCat("127.0.0.1:", port),
                                         .credentials = Credentials::Insecure(),
                                         .deadline = absl::Seconds(20)});
  }

  CancellingCoordinator coordinator_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(CancelledTest, AFollowerTriesAgain) {
  const auto status = client_->Follow(JobId(7), [](const proto::FollowEvent&) {});
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state(), proto::FINISHED);
  EXPECT_EQ(coordinator_.follows(), 2);
}

TEST_F(CancelledTest, ASubmissionIsSentAgainUnderItsNumber) {
  const absl::StatusOr<JobId> job = client_->Submit({}, {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(*job, JobId(7));
  const std::vector<uint64_t> ids = coordinator_.submitted();
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_NE(ids[0], 0u);
  EXPECT_EQ(ids[1], ids[0]);
  EXPECT_EQ(ids[2], ids[0]);
  EXPECT_TRUE(client_->Submit({}, {}).ok());
  EXPECT_NE(coordinator_.submitted().back(), ids[0]) << "another one";
}

TEST_F(CancelledTest, WhoWaitsForATraceIsToldThatTheCoordinatorEndedIt) {
  EXPECT_EQ(client_->GetTrace(JobId(7), [](const proto::TraceBatch&) {}),
            absl::UnavailableError("the coordinator ends the stream"));
}

TEST(CoordinatorClient, NobodyWaitsForTheTraceOfACoordinatorThatIsGoneOnceToldToStop) {
  const auto client = CoordinatorClient::Create({.coordinator = "127.0.0.1:1",
                                                 .credentials = Credentials::Insecure(),
                                                 .deadline = absl::Hours(1)});
  client->StopFollowing();
  EXPECT_TRUE(absl::IsCancelled(client->GetTrace(JobId(1), [](const auto&) {})));
}

TEST(CoordinatorClient, NamesAnAddressThatDoesNotAnswer) {
  // Bound but not listening: connections are refused.
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string where = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));

  const auto client = CoordinatorClient::Create({.coordinator = where,
                                                 .credentials = Credentials::Insecure(),
                                                 .deadline = absl::Milliseconds(300)});
  EXPECT_EQ(
      client->ListJobs().status(),
      absl::UnavailableError(absl::StrCat(
          "coordinator at ", where, " cannot be reached (tried for 300ms): connection refused")));
  proto::Register registration;
  registration.set_name("w1");
  Session::Options options;
  options.coordinator = where;
  options.credentials = Credentials::Insecure();
  options.registration = registration;
  options.connect_deadline = absl::Milliseconds(300);
  const auto session =
      Session::Create(options, {.running_jobs = [] { return std::vector<uint32_t>(); }});
  const absl::Status status = session->Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr(absl::StrCat("coordinator at ", where, " cannot be reached")));
}

class AtAUnixSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_ + "/s";
    client_ = CoordinatorClient::Create(
        {.coordinator = UnixAddress(path_), .deadline = absl::Seconds(20)});
  }

  const ShortFolder short_folder_;
  const std::string& folder_ = short_folder_.path();
  std::string path_;
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(AtAUnixSocketTest, TheCoordinatorIsWaitedForAndSpokenTo) {
  CancellingCoordinator coordinator;
  std::unique_ptr<grpc::Server> server;
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(300));
    grpc::ServerBuilder builder;
    builder.AddListeningPort(UnixAddress(path_), grpc::InsecureServerCredentials());
    builder.RegisterService(&coordinator);
    server = builder.BuildAndStart();
  });
  const auto status = client_->Follow(JobId(7), [](const proto::FollowEvent&) {});
  later.join();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->state(), proto::FINISHED);
  EXPECT_EQ(coordinator.follows(), 2);
}

// In a folder where anybody may create a file, another user listens first.
TEST_F(AtAUnixSocketTest, AnotherUserIsToldNothing) {
  std::filesystem::permissions(folder_,
                               std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  bool ran = false;
  std::thread impostor([&] {
    ran = AsOtherUser([&] {
      absl::SleepFor(absl::Milliseconds(300));  // the client is trying by then
      const auto listener = UnixListener::Create(path_);
      if (!listener.ok() || chmod(path_.c_str(), 0777) != 0) return false;
      pollfd ready = {listener->fd().get(), POLLIN, 0};
      if (poll(&ready, 1, 20'000) != 1) return false;
      const UniqueFd line(accept(listener->fd().get(), nullptr, nullptr));
      char byte = 0;
      return recv(line.get(), &byte, 1, 0) == 0;  // it has disconnected without sending anything
    });
  });
  const absl::Status submitted = client_->Submit({}, {}).status();
  impostor.join();
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
  EXPECT_EQ(submitted.code(), absl::StatusCode::kPermissionDenied) << submitted;
}

}  // namespace
}  // namespace strata::control
