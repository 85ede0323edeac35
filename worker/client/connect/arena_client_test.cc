#include "worker/client/connect/arena_client.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "common/ipc/framed_channel.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::client {
namespace {

TEST(ArenaClientTest, AProgramThatDoesNotKnowOfDevicesIsToldSoBeforeItCrashes) {
  proto::Launch launch;
  launch.mutable_record()->mutable_job()->set_device(proto::Job::GPU);
  ArenaClient client(launch, std::make_shared<AgentChannel>(-1), nullptr);
  float memory[2] = {};
  Tensor copied{.name = "b", .shape = {1}};
  copied.weights = &memory[0];
  copied.gradients = &memory[1];
  ASSERT_TRUE(client.Register(copied).ok());
  ASSERT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
  EXPECT_EQ(client.Allocate(),
            absl::FailedPreconditionError("device: GPU, but the program, which keeps \"w\" in the "
                                          "arena, has not called devices().Accept()"));
}

// With which nothing goes well.
class FailingLink final : public RankLink {
 public:
  explicit FailingLink(absl::Status why) : why_(std::move(why)) {}
  absl::StatusOr<ArenaView> Allocate(const proto::Layout&) override { return why_; }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override { return why_; }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return why_; }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return why_; }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t) override { return why_; }
  absl::Status Finish(uint64_t) override { return why_; }
  proto::NodeCounters Counters() const override { return {}; }

 private:
  const absl::Status why_;
};

// What the worker daemon is told where the link says so.
std::string SaidOf(const absl::Status& why) {
  int fds[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  FramedChannel daemon{UniqueFd(fds[0])};
  {
    ArenaClient client({}, std::make_shared<AgentChannel>(fds[1]),
                       std::make_unique<FailingLink>(why));
    EXPECT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
    EXPECT_EQ(client.Allocate(), why);
  }
  proto::ChildMessage message;
  return daemon.Receive(&message, absl::Seconds(60)).ok() ? message.failed() : "nothing";
}

TEST(ArenaClientTest, WhatGoesWrongWithTheRankItselfIsSaidAndWhatOthersDoIsNot) {
  EXPECT_EQ(SaidOf(absl::InternalError("device 1: NCCL: an error")), "device 1: NCCL: an error");
  EXPECT_EQ(SaidOf(absl::UnavailableError("rank 1 is gone")), "nothing");
}

}  // namespace
}  // namespace strata::client
