#include "worker/client/connect/rank_checkpoints.h"

#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/image/image_bytes.h"
#include "common/os/framed_channel.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::client {
namespace {

absl::Status Wanted() { return absl::OkStatus(); }

// A link that alone has the weights.
class FakeLink final : public RankLink {
 public:
  void GoOnFrom(ReadImages read) override { this->read = std::move(read); }
  absl::StatusOr<std::vector<ChunkImage>> Cut(uint64_t steps) override {
    ChunkImage image = {.clock = steps};
    image.weights = {.version = steps, .updates = steps, .samples = 9};
    image.weights.weights = FloatBytes({1, 2, 3, 4});
    return std::vector<ChunkImage>{image};
  }
  absl::StatusOr<ArenaView> Allocate(const proto::Layout&) override { return ArenaView(); }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override { return RunFacts(); }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return absl::OkStatus(); }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return absl::OkStatus(); }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t) override { return absl::OkStatus(); }
  absl::Status Finish(uint64_t) override { return absl::OkStatus(); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  ReadImages read;
};

// Rank 1 of 2 of a job with a checkpoint every 3 steps.
class RankCheckpointsTest : public ::testing::Test {
 protected:
  RankCheckpointsTest() {
    dir_ = absl::StrCat(::testing::TempDir(), "/rank_checkpoints.",
                        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(dir_);
    proto::JobRecord* record = launch_.mutable_record();
    record->set_job_id(7);
    record->set_attempt(2);
    record->set_token(99);
    record->mutable_job()->set_ranks(2);
    record->mutable_job()->mutable_checkpoint()->set_dir(dir_);
    record->mutable_job()->mutable_checkpoint()->set_every_steps(3);
    launch_.set_rank(1);
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    daemon_ = std::make_unique<FramedChannel>(UniqueFd(fds[0]));
    agent_ = std::make_unique<AgentChannel>(fds[1]);
  }
  ~RankCheckpointsTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<RankCheckpoints> Begun(uint64_t first_step = 0, StoreOpener open = nullptr) {
    auto made = std::make_unique<RankCheckpoints>(launch_, agent_.get(), &link_, std::move(open));
    made->Begin({.can_resume = true, .keeps_state = true}, first_step);
    return made;
  }
  // Makes the steps up to `to`, without giving any state.
  static void Pass(uint64_t from, uint64_t to, RankCheckpoints* checkpoints) {
    for (uint64_t steps = from + 1; steps <= to; ++steps) {
      checkpoints->PassOn();
      ASSERT_EQ(checkpoints->AtStep(steps), absl::OkStatus());
    }
  }
  proto::ChildMessage Told() {
    proto::ChildMessage message;
    EXPECT_TRUE(daemon_->Receive(&message, absl::Seconds(60)).ok());
    return message;
  }
  // Resumes from the part's object.
  void GoOnFrom(const proto::CheckpointPart& part) {
    proto::Resume* resume = launch_.mutable_record()->mutable_resume();
    resume->set_dir(dir_);
    resume->set_clock(part.clock());
    resume->set_step(part.clock());
    *resume->add_objects() = part.object();
    resume->add_object_of_rank(0);
    resume->add_object_of_rank(0);
  }

  std::string dir_;
  proto::Launch launch_;
  std::unique_ptr<FramedChannel> daemon_;
  std::unique_ptr<AgentChannel> agent_;
  FakeLink link_;
};

std::string TextOf(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(RankCheckpointsTest, AStateIsDueAfterEachNthStepAndIsReadAsItWasGiven) {
  auto checkpoints = Begun();
  for (uint64_t steps = 1; steps <= 3; ++steps) {
    EXPECT_FALSE(checkpoints->due()) << steps;
    EXPECT_EQ(checkpoints->Give("early").code(), absl::StatusCode::kFailedPrecondition);
    checkpoints->PassOn();
    ASSERT_EQ(checkpoints->AtStep(steps), absl::OkStatus());
  }
  EXPECT_TRUE(checkpoints->due());
  ASSERT_EQ(checkpoints->Give(std::string("a\0b", 3)), absl::OkStatus());
  EXPECT_FALSE(checkpoints->due());
  ASSERT_EQ(checkpoints->Finish(absl::Seconds(60), Wanted), absl::OkStatus());
  const proto::CheckpointPart part = Told().checkpoint();
  EXPECT_EQ(part.job_id(), 7u);
  EXPECT_EQ(part.token(), 99u);
  EXPECT_EQ(part.clock(), 3u);
  EXPECT_TRUE(part.has_rank());
  EXPECT_EQ(part.rank(), 1u);
  EXPECT_EQ(part.error(), "");
  EXPECT_EQ(part.object().name(), Checkpoints::ObjectName(3, "rank-1-7.2"));
  GoOnFrom(part);
  auto resumed = Begun(3);
  const absl::StatusOr<Bytes> state = resumed->Read(1);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(TextOf(*state), std::string("a\0b", 3));
  // Rank 0's state is another object.
  EXPECT_EQ(resumed->Read(0).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(Told().damaged().find("is of rank 1 at clock 3, not of rank 0 at 3"),
            std::string::npos);
  EXPECT_EQ(resumed->Read(2).status().code(), absl::StatusCode::kInvalidArgument);
  // The step at which it resumes has its checkpoint.
  Pass(3, 5, resumed.get());
  EXPECT_FALSE(resumed->due());
  ASSERT_EQ(resumed->AtStep(6), absl::OkStatus());
  EXPECT_TRUE(resumed->due());
}

TEST_F(RankCheckpointsTest, WhatIsWrittenIsToldWhileTheProgramCallsNothing) {
  auto checkpoints = Begun();
  ASSERT_EQ(checkpoints->AtStep(3), absl::OkStatus());
  ASSERT_TRUE(checkpoints->Give("x").ok());
  EXPECT_EQ(Told().checkpoint().clock(), 3u);
}

TEST_F(RankCheckpointsTest, WithoutACheckpointThereIsNothingToRead) {
  auto checkpoints = Begun();
  EXPECT_EQ(checkpoints->Read(0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RankCheckpointsTest, WhereOneIsDueAndNoneIsGivenTheCheckpointFails) {
  auto checkpoints = Begun();
  Pass(0, 4, checkpoints.get());
  EXPECT_FALSE(checkpoints->due());
  Pass(4, 6, checkpoints.get());
  checkpoints->PassOn();  // no step comes any more
  ASSERT_EQ(checkpoints->Finish(absl::Seconds(60), Wanted), absl::OkStatus());
  for (const uint64_t clock : {3, 6}) {
    const proto::CheckpointPart part = Told().checkpoint();
    EXPECT_EQ(part.clock(), clock);
    EXPECT_EQ(part.error(), "the program has not given its state");
  }
}

TEST_F(RankCheckpointsTest, ProgramsThatKeepNothingAreAskedForNothing) {
  RankCheckpoints checkpoints(launch_, agent_.get(), &link_);
  checkpoints.Begin({.can_resume = true}, 0);
  Pass(0, 6, &checkpoints);
  EXPECT_FALSE(checkpoints.due());
  launch_.mutable_record()->mutable_job()->clear_checkpoint();
  auto without = Begun();
  Pass(0, 6, without.get());
  EXPECT_FALSE(without->due());
  EXPECT_EQ(without->Finish(absl::Seconds(60), Wanted), absl::OkStatus());
}

TEST_F(RankCheckpointsTest, ClocksHaveAsManyStepsAsTheJobSays) {
  proto::Job* job = launch_.mutable_record()->mutable_job();
  job->mutable_consistency()->mutable_async()->mutable_elastic()->set_every_steps(4);
  auto checkpoints = Begun();
  Pass(0, 3, checkpoints.get());
  EXPECT_FALSE(checkpoints->due());
  ASSERT_EQ(checkpoints->AtStep(4), absl::OkStatus());
  ASSERT_TRUE(checkpoints->due());
  ASSERT_TRUE(checkpoints->Give("x").ok());
  ASSERT_TRUE(checkpoints->Finish(absl::Seconds(60), Wanted).ok());
  EXPECT_EQ(Told().checkpoint().clock(), 1u);
}

TEST_F(RankCheckpointsTest, AStoreThatIsSlowerThanStepsCostsCheckpointsAndNoMemory) {
  absl::Mutex gate;
  gate.Lock();
  auto checkpoints = Begun(0, [&](const std::string& dir) {
    absl::MutexLock lock(&gate);
    return FileStore::Open(dir);
  });
  for (uint64_t steps = 3; steps <= 9; steps += 3) {
    checkpoints->PassOn();
    ASSERT_EQ(checkpoints->AtStep(steps), absl::OkStatus());
    EXPECT_EQ(checkpoints->due(), steps < 9);
    EXPECT_EQ(checkpoints->Give("x").ok(), steps < 9);
  }
  gate.Unlock();
  ASSERT_TRUE(checkpoints->Finish(absl::Seconds(60), Wanted).ok());
  EXPECT_EQ(Told().checkpoint().error(), "");
  EXPECT_EQ(Told().checkpoint().error(), "");
  const proto::CheckpointPart third = Told().checkpoint();
  EXPECT_EQ(third.clock(), 9u);
  EXPECT_EQ(third.error(),
            "the checkpoint of clock 3 is not written yet: the store is slower than steps are");
}

TEST_F(RankCheckpointsTest, WaitsForTheStoreNoLongerThanItIsTold) {
  absl::Mutex gate;
  gate.Lock();
  absl::Notification opening;
  auto checkpoints = Begun(0, [&](const std::string& dir) {
    opening.Notify();
    absl::MutexLock lock(&gate);
    return FileStore::Open(dir);
  });
  ASSERT_EQ(checkpoints->AtStep(3), absl::OkStatus());
  ASSERT_TRUE(checkpoints->Give("x").ok());
  opening.WaitForNotification();
  EXPECT_EQ(checkpoints->Finish(absl::ZeroDuration(), Wanted), absl::OkStatus());
  EXPECT_EQ(
      checkpoints->Finish(absl::InfiniteDuration(), [] { return absl::CancelledError("no"); }),
      absl::CancelledError("no"));
  gate.Unlock();
}

TEST_F(RankCheckpointsTest, AnObjectThatIsDamagedIsSaidToBeAndAStoreThatFailsIsNot) {
  auto checkpoints = Begun();
  ASSERT_EQ(checkpoints->AtStep(3), absl::OkStatus());
  ASSERT_TRUE(checkpoints->Give("state").ok());
  ASSERT_TRUE(checkpoints->Finish(absl::Seconds(60), Wanted).ok());
  const proto::CheckpointPart part = Told().checkpoint();
  GoOnFrom(part);
  const std::string path = absl::StrCat(dir_, "/", part.object().name());
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('!');
  }
  EXPECT_EQ(Begun(3)->Read(1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(Told().damaged().find(part.object().name()), std::string::npos);
  auto away = Begun(3, [](const std::string&) { return absl::UnavailableError("no store"); });
  EXPECT_EQ(away->Read(1).status(), absl::InternalError("no store"));
  EXPECT_EQ(Told().failed(), "no store");
}

TEST_F(RankCheckpointsTest, WhereRanksAloneHaveTheWeightsRank0GivesThemAsShard0) {
  launch_.mutable_record()->mutable_job()->set_exchange(proto::Job::NCCL);
  auto other = Begun();
  Pass(0, 3, other.get());
  other->Give("state").IgnoreError();
  ASSERT_EQ(other->Finish(absl::Seconds(60), Wanted), absl::OkStatus());
  EXPECT_TRUE(Told().checkpoint().has_rank()) << "rank 1 gives its state alone";
  launch_.set_rank(0);
  auto checkpoints = std::make_unique<RankCheckpoints>(launch_, agent_.get(), &link_, nullptr);
  checkpoints->Begin({.can_resume = true}, 0);
  Pass(0, 3, checkpoints.get());
  EXPECT_FALSE(checkpoints->due());
  ASSERT_EQ(checkpoints->Finish(absl::Seconds(60), Wanted), absl::OkStatus());
  const proto::CheckpointPart part = Told().checkpoint();
  ASSERT_TRUE(part.has_shard());
  EXPECT_EQ(part.shard(), 0u);
  EXPECT_EQ(part.object().name(), Checkpoints::ObjectName(3, "shard-0-7.2"));
  EXPECT_EQ(link_.read, nullptr) << "it has begun anew";
  GoOnFrom(part);
  auto resumed = Begun(3);
  ASSERT_NE(link_.read, nullptr);
  const auto images = link_.read();
  ASSERT_TRUE(images.ok()) << images.status();
  ASSERT_EQ(images->size(), 1u);
  EXPECT_EQ((*images)[0].weights.samples, 9u);
  EXPECT_EQ((*images)[0].weights.weights.floats()[3], 4.0f);
  // If it is of another clock, it is damaged.
  launch_.mutable_record()->mutable_resume()->set_clock(6);
  EXPECT_EQ(link_.read().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(Told().damaged().find("elements from 0 on are of clock 3, not 6"), std::string::npos);
}

}  // namespace
}  // namespace strata::client
