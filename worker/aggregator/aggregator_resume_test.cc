// A node whose job goes on from a checkpoint.
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/aggregator/testing/aggregator_fixture.h"

namespace strata::worker {
namespace {

using ResumeTest = AggregatorFixture;

// Goes on with 6 steps made and weights of 20.
void Resume(FakeShard* shard, proto::JobRecord* record) {
  record->mutable_resume()->set_clock(6);
  for (uint32_t c = 0; c < 4; ++c) {
    shard->Resume(c, std::vector<float>(c < 3 ? 256 : kElements - 3 * 256, 20), 6, {{0, 6}});
  }
}

TEST_F(ResumeTest, RanksGoOnWithTheStepAndTheWeightsOfACheckpoint) {
  ShardServer server;
  Resume(&server.shard, launch_.mutable_record());
  absl::Notification seen;
  OnRanks([&](uint32_t rank, Client* client) {
    EXPECT_EQ(client->first_step(), 0u);
    absl::Status status = Begin(client, 700, 0.5f, /*can_resume=*/true);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(client->first_step(), 6u);
    seen.WaitForNotification();
    for (uint64_t step = client->first_step(); step < 20; ++step) {
      ASSERT_TRUE(client->WaitAll().ok());
      const absl::Span<const float> weights = *client->ReadWeights();
      for (float w : weights) ASSERT_EQ(w, 20 + 3.0f * (step - 6));
      status = Step(client, 1.0f + rank);
      ASSERT_TRUE(status.ok()) << status;
    }
    status = client->Finish();
    ASSERT_TRUE(status.ok()) << status;
    const absl::Span<const float> weights = *client->ReadWeights();
    for (float w : weights) ASSERT_EQ(w, 20 + 3.0f * 14);
  });
  EXPECT_TRUE(AwaitReady().can_resume());
  SendRun(server.address());
  const proto::NodeActivity activity =
      AwaitActivity([](const auto& a) { return a.phase() == "training" && a.ranks_size() == 2; });
  EXPECT_EQ(activity.ranks(1).clock(), 6u);
  EXPECT_EQ(activity.ranks(1).published(), 0u);
  EXPECT_FALSE(activity.ranks(1).waiting()) << "its weights are there";
  seen.Notify();
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
  EXPECT_TRUE(server.shard.faults().empty());
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server.shard.taken(0, c), 20u);
}

TEST_F(ResumeTest, RanksThatHaveMadeAllStepsLeaveWithTheFinalWeights) {
  ShardServer server;
  Resume(&server.shard, launch_.mutable_record());
  OnRanks([&](uint32_t, Client* client) {
    ASSERT_TRUE(Begin(client, 700, 0.5f, /*can_resume=*/true).ok());
    ASSERT_TRUE(client->Finish().ok());
    const absl::Span<const float> weights = *client->ReadWeights();
    for (float w : weights) ASSERT_EQ(w, 20);
  });
  AwaitReady();
  SendRun(server.address());
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

// A process that takes the place of one that died, which had pushed 6 times.
class RejoinTest : public AggregatorFixture {
 protected:
  RejoinTest() {
    Resume(&server_.shard, launch_.mutable_record());
    launch_.mutable_record()->clear_resume();
    launch_.mutable_record()->mutable_job()->mutable_replace()->set_per_hour(1);
    launch_.set_incarnation(2);
  }
  ShardServer server_;
};

TEST_F(RejoinTest, RanksGoOnWithTheNodesStepAndTheServersWeights) {
  absl::Notification seen;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client, 700, 0.5f, /*can_resume=*/true).ok());
    EXPECT_EQ(client->first_step(), 6u);
    seen.WaitForNotification();
    for (uint64_t step = client->first_step(); step < 9; ++step) {
      ASSERT_TRUE(client->WaitAll().ok());
      const absl::Span<const float> weights = *client->ReadWeights();
      for (float w : weights) ASSERT_EQ(w, 20 + 3.0f * (step - 6));
      ASSERT_TRUE(Step(client, 1.0f + rank).ok());
    }
    ASSERT_TRUE(client->Finish().ok());
    const absl::Span<const float> weights = *client->ReadWeights();
    for (float w : weights) ASSERT_EQ(w, 20 + 3.0f * 3);
  });
  AwaitReady();
  SendRun(server_.address());
  const proto::NodeActivity activity =
      AwaitActivity([](const auto& a) { return a.has_rejoined_step(); });
  EXPECT_EQ(activity.rejoined_step(), 6u);
  EXPECT_EQ(activity.phase(), "training");
  seen.Notify();
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
  EXPECT_TRUE(server_.shard.faults().empty());
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server_.shard.taken(0, c), 9u);
}

TEST_F(RejoinTest, AProgramThatDoesNotSayThatItCanGoOnEndsTheNode) {
  OnRanks([&](uint32_t, Client* client) { EXPECT_FALSE(Begin(client).ok()); });
  EXPECT_EQ(AwaitWord().failed(),
            "node 0 cannot take the place of the one that died: its program has not said that it "
            "can begin with a step that is not the first (JobFacts::can_resume)");
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kFailedPrecondition);
}

// Likewise in rounds of three steps, of which the last one has one: there are ten.
class ShorterRoundTest : public AggregatorFixture {
 protected:
  ShorterRoundTest() {
    proto::JobRecord* record = launch_.mutable_record();
    proto::Job* job = record->mutable_job();
    job->mutable_optimizer()->mutable_sgd();
    job->mutable_schedule()->set_base_lr(0.5);
    job->mutable_schedule()->mutable_constant();
    job->mutable_consistency()->mutable_lazy()->set_local_steps(3);
    job->mutable_replace()->set_per_hour(1);
    record->mutable_view()->add_nodes()->set_ranks(kRanks);
    proto::Segment* segment = record->mutable_layout()->add_segments();
    segment->add_shape(kElements);
    segment->set_lr_multiplier(1);
    launch_.set_incarnation(2);
  }
  // The process before had pushed so many rounds, with which servers have weights of 20.
  void ExpectToGoOn(uint64_t rounds, uint64_t first_step, float last_weight) {
    ShardServer server;
    for (uint32_t c = 0; c < 4; ++c) {
      const size_t elements = c < 3 ? 256 : kElements - 3 * 256;
      server.shard.Resume(c, std::vector<float>(elements, 20), rounds, {{0, rounds}});
    }
    absl::Notification seen;
    OnRanks([&](uint32_t, Client* client) {
      ASSERT_TRUE(Begin(client, 700, 0.5f, /*can_resume=*/true).ok());
      EXPECT_EQ(client->first_step(), first_step);
      for (uint64_t step = first_step; step < 10; ++step) ASSERT_TRUE(Step(client, 1).ok());
      seen.WaitForNotification();
      ASSERT_TRUE(client->Finish().ok());
      for (float w : *client->ReadWeights()) ASSERT_EQ(w, last_weight);
    });
    AwaitReady();
    SendRun(server.address());
    const auto activity = AwaitActivity([](const auto& a) { return a.has_rejoined_step(); });
    EXPECT_EQ(activity.rejoined_step(), first_step);
    seen.Notify();
    JoinRanks();
    EXPECT_TRUE(Result().ok()) << result_;
    EXPECT_TRUE(server.shard.faults().empty());
    for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server.shard.taken(0, c), 4u);
  }
};

TEST_F(ShorterRoundTest, IsMadeAgainWhereItWasNotPushed) { ExpectToGoOn(3, 9, 21); }

TEST_F(ShorterRoundTest, ThatWasPushedIsOverAndRanksHaveMadeNoMoreStepsThanTheJobHas) {
  ExpectToGoOn(4, 10, 20);
}

TEST_F(ResumeTest, AProgramThatDoesNotSayThatItCanGoOnMakesNoStep) {
  ShardServer server;
  Resume(&server.shard, launch_.mutable_record());
  OnRanks([&](uint32_t, Client* client) {
    const absl::Status status = Begin(client);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(client->BeginStep(8).code(), absl::StatusCode::kFailedPrecondition);
  });
  EXPECT_FALSE(AwaitReady().can_resume());
  SendRun(server.address());
  JoinRanks();
  EXPECT_FALSE(Result().ok());
  EXPECT_EQ(server.shard.taken(0, 0), 6u);
}

}  // namespace
}  // namespace strata::worker
