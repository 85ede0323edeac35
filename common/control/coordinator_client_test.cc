// What becomes of streams that a coordinator cancels: one that stops does so with calls that come
// after it has ended the others. The rest of the client is tested with a real coordinator.
#include "common/control/coordinator_client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/control.grpc.pb.h"

namespace strata::control {
namespace {

// Cancels the first call of each stream; a later follower is told that job 7 has finished.
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

  int follows() const { return follows_; }

 private:
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
    client_ = CoordinatorClient::Create(
        {.coordinator = absl::StrCat("127.0.0.1:", port), .deadline = absl::Seconds(20)});
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

TEST_F(CancelledTest, WhoWaitsForATraceIsToldThatTheCoordinatorEndedIt) {
  EXPECT_EQ(client_->GetTrace(JobId(7), [](const proto::TraceBatch&) {}),
            absl::UnavailableError("the coordinator ends the stream"));
}

}  // namespace
}  // namespace strata::control
