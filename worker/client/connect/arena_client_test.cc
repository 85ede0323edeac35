#include "worker/client/connect/arena_client.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/ipc/framed_channel.h"
#include "common/job/job.h"
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
  absl::Status KeepWeights() override { return why_; }
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

// Whose waits all end only when the program no longer wants them.
class WaitingLink final : public RankLink {
 public:
  void AskInWaits(device::StillWanted still_wanted) override { asks_ = std::move(still_wanted); }
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override {
    memory_.resize(2 * layout.elements());
    return ArenaView{absl::MakeSpan(memory_).subspan(0, layout.elements()),
                     absl::MakeSpan(memory_).subspan(layout.elements())};
  }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override {
    if (absl::Status status = WaitIf(kStart); !status.ok()) return status;
    return RunFacts{.chunk_elements = 4};
  }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return WaitIf(kBeginStep); }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return WaitIf(kAwaitWeights); }
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t) override {
    published += chunks.size();
    return WaitIf(kPublish);
  }
  absl::Status Finish(uint64_t) override { return WaitIf(kFinish); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  enum Call { kNone, kStart, kBeginStep, kAwaitWeights, kPublish, kFinish } waits_in = kNone;
  size_t published = 0;

 private:
  absl::Status WaitIf(Call call) const {
    absl::Status status;
    while (status.ok() && waits_in == call) {
      absl::SleepFor(absl::Milliseconds(1));
      status = asks_();
    }
    return status;
  }

  device::StillWanted asks_;
  std::vector<float> memory_;
};

// Of a job that goes on with step 6; notes of which step each call is.
class ResumedLink final : public RankLink {
 public:
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override {
    memory_.resize(2 * layout.elements());
    return ArenaView{absl::MakeSpan(memory_).subspan(0, layout.elements()),
                     absl::MakeSpan(memory_).subspan(layout.elements())};
  }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override {
    return RunFacts{.chunk_elements = 4, .samples_per_epoch = 160, .first_step = 6};
  }
  absl::Status BeginStep(uint64_t step, uint32_t, float) override { return Note(step); }
  absl::Status AwaitWeights(ChunkId, uint64_t step) override { return Note(step); }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t step) override { return Note(step); }
  absl::Status Finish(uint64_t steps) override { return Note(steps); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  std::vector<uint64_t> steps;

 private:
  absl::Status Note(uint64_t step) {
    steps.push_back(step);
    return absl::OkStatus();
  }

  std::vector<float> memory_;
};

TEST(ArenaClientTest, OfAJobThatGoesOnStepsAndSamplesCountFromTheBeginningOfItsTraining) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  FramedChannel daemon{UniqueFd(fds[0])};
  proto::Launch launch;
  proto::Job* const job = launch.mutable_record()->mutable_job();
  job->set_ranks(2);
  job->set_epochs(9);
  job->mutable_schedule()->set_base_lr(1);
  job->mutable_schedule()->set_warmup_epochs(1);
  auto made = std::make_unique<ResumedLink>();
  ResumedLink* const link = made.get();
  ArenaClient client(launch, std::make_shared<AgentChannel>(fds[1]), std::move(made));
  ASSERT_TRUE(client.Register({.name = "w", .shape = {4}}).ok());
  EXPECT_EQ(client.first_step(), 0u);
  ASSERT_EQ(client.Start({.can_resume = true}), absl::OkStatus());
  EXPECT_EQ(client.first_step(), 6u);
  for (int step = 0; step < 2; ++step) {
    ASSERT_EQ(client.BeginStep(8), absl::OkStatus());
    ASSERT_EQ(client.WaitAll(), absl::OkStatus());
    ASSERT_EQ(client.FinishStep(), absl::OkStatus());
  }
  ASSERT_EQ(client.Send({}), absl::OkStatus());
  ASSERT_EQ(client.Finish(), absl::OkStatus());
  EXPECT_EQ(link->steps, (std::vector<uint64_t>{6, 6, 6, 7, 7, 7, 8}));
  proto::ChildMessage message;
  ASSERT_TRUE(daemon.Receive(&message, absl::Seconds(60)).ok());
  EXPECT_FLOAT_EQ(message.report().lr(),
                  LearningRateAt(JobSchedule(*job), 8 * 8 * 2, 160, job->epochs()));
}

class InterruptTest : public testing::Test {
 protected:
  InterruptTest() {
    client_.OnWait([this] { return ++asked_ >= interrupts_at_; });
    EXPECT_TRUE(client_.Register({.name = "w", .shape = {4}}).ok());
    EXPECT_TRUE(client_.Register({.name = "b", .shape = {4}}).ok());
  }
  void Start() {
    ASSERT_EQ(client_.Start({}), absl::OkStatus());
    ASSERT_EQ(client_.BeginStep(1), absl::OkStatus());
    ASSERT_EQ(client_.FinishStep(), absl::OkStatus());
  }

  const absl::Status interrupted_ = absl::CancelledError("interrupted");
  std::unique_ptr<WaitingLink> made_ = std::make_unique<WaitingLink>();
  WaitingLink* const link_ = made_.get();
  ArenaClient client_{{}, std::make_shared<AgentChannel>(-1), std::move(made_)};
  int asked_ = 0, interrupts_at_ = 1;
};

TEST_F(InterruptTest, AWaitThatTheProgramEndsMayBeMadeAgain) {
  Start();
  link_->waits_in = WaitingLink::kAwaitWeights;
  EXPECT_EQ(client_.Wait(0), interrupted_);
  EXPECT_EQ(client_.WaitAll(), interrupted_);
  ASSERT_EQ(client_.BeginStep(1), absl::OkStatus());
  EXPECT_EQ(client_.Publish(0), interrupted_);
  EXPECT_EQ(client_.FinishStep(), interrupted_);
  link_->waits_in = WaitingLink::kNone;
  EXPECT_EQ(client_.WaitAll(), absl::OkStatus());
  EXPECT_EQ(client_.Publish(0), absl::OkStatus());
  link_->waits_in = WaitingLink::kNone;
  EXPECT_EQ(client_.FinishStep(), absl::OkStatus());
  EXPECT_EQ(link_->published, 4u) << "each chunk once in each of the two steps";
  EXPECT_EQ(client_.Finish(), absl::OkStatus());
}

TEST_F(InterruptTest, AfterACallThatWasDoneInPartEveryCallIsOutOfOrder) {
  Start();
  link_->waits_in = WaitingLink::kPublish;
  ASSERT_EQ(client_.BeginStep(1), absl::OkStatus());
  EXPECT_EQ(client_.Publish(0), interrupted_);
  EXPECT_EQ(client_.FinishStep().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_.Wait(0).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InterruptTest, StartEndsAndCannotBeMadeAgain) {
  link_->waits_in = WaitingLink::kStart;
  EXPECT_EQ(client_.Start({}), interrupted_);
  EXPECT_EQ(client_.Start({}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(InterruptTest, FinishEnds) {
  Start();
  link_->waits_in = WaitingLink::kFinish;
  EXPECT_EQ(client_.Finish(), interrupted_);
}

TEST_F(InterruptTest, TheProgramIsAskedEvery50MsHoweverOftenTheLinkAsks) {
  Start();
  interrupts_at_ = 5;
  link_->waits_in = WaitingLink::kAwaitWeights;
  const absl::Time begin = absl::Now();
  EXPECT_EQ(client_.Wait(0), interrupted_);
  EXPECT_EQ(asked_, 5);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(4 * 50));
}

}  // namespace
}  // namespace strata::client
