#include "worker/aggregator/aggregator.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/aggregator/testing/aggregator_fixture.h"
namespace strata::worker {
namespace {

using AggregatorTest = AggregatorFixture;

TEST_F(AggregatorTest, RanksTrainOnTheSumOfTheirGradientsInOneArena) {
  constexpr int kSteps = 20;
  ShardServer server;
  std::vector<std::vector<float>> finals(kRanks);
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    for (int step = 0; step < kSteps; ++step) {
      absl::Status status = Step(client, rank == 0 ? 1 : 10 * step);
      ASSERT_TRUE(status.ok()) << status;
    }
    absl::Status status = client->Finish();
    ASSERT_TRUE(status.ok()) << status;
    finals[rank].assign(client->ReadWeights()->begin(), client->ReadWeights()->end());
  });
  proto::NodeReady ready = AwaitReady();
  EXPECT_EQ(ready.job_id(), 5u);
  EXPECT_EQ(ready.layout().elements(), kElements);
  EXPECT_EQ(ready.samples_per_epoch(), 100u);
  EXPECT_EQ(ready.total_steps(), 10u);
  EXPECT_EQ(ready.run_dir(), "/runs/five");
  SendRun(server.address());
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
  // 0.5 + 20 * 1 + 10 * (0 + ... + 19)
  EXPECT_EQ(finals[0], std::vector<float>(kElements, 1920.5f));
  EXPECT_EQ(finals[1], finals[0]);
  EXPECT_TRUE(server.shard.faults().empty());
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server.shard.taken(0, c), kSteps);
}

TEST_F(AggregatorTest, WeightsSeenInAStepAreThoseOfTheClockBefore) {
  ShardServer server;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    for (int step = 0; step < 50; ++step) {
      ASSERT_TRUE(client->BeginStep(8).ok());
      ASSERT_TRUE(client->WaitAll().ok());
      const absl::Span<const float> weights = *client->ReadWeights();
      for (float w : weights) ASSERT_EQ(w, 0.5f + 3 * step);
      for (int tensor : {0, 1}) {
        for (float& g : client->Gradients(tensor)) g = 1.0f + rank;
      }
      ASSERT_TRUE(client->Publish(1).ok());  // out of order
      ASSERT_TRUE(client->Publish(0).ok());
      ASSERT_TRUE(client->FinishStep().ok());
    }
    ASSERT_TRUE(client->Finish().ok());
  });
  AwaitReady();
  SendRun(server.address());
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(AggregatorTest, TheDaemonHearsWhichRankHoldsUpTheNode) {
  ShardServer server;
  absl::Notification start, go_on;
  OnRanks([&](uint32_t rank, Client* client) {
    if (rank == 1) start.WaitForNotification();
    ASSERT_TRUE(Begin(client).ok());
    ASSERT_TRUE(Step(client, 1).ok());
    ASSERT_TRUE(client->BeginStep(8).ok());
    ASSERT_TRUE(client->WaitAll().ok());
    ASSERT_TRUE(client->Publish(1).ok());
    if (rank == 1) go_on.WaitForNotification();
    ASSERT_TRUE(client->Publish(0).ok());
    ASSERT_TRUE(client->FinishStep().ok());
    ASSERT_TRUE(client->Finish().ok());
  });
  proto::NodeActivity activity =
      AwaitActivity([](const auto& a) { return a.ranks_size() == 2 && a.ranks(0).waiting(); });
  EXPECT_EQ(activity.phase(), "starting");
  EXPECT_EQ(activity.ranks(1).rank(), kFirstRank + 1);
  EXPECT_FALSE(activity.ranks(1).waiting()) << "has not called Start";
  start.Notify();
  AwaitReady();
  SendRun(server.address());

  activity = AwaitActivity([](const auto& a) {
    return a.phase() == "training" && a.ranks(0).clock() == 2 && a.ranks(1).published() == 2;
  });
  EXPECT_TRUE(activity.ranks(0).waiting());
  EXPECT_EQ(activity.ranks(1).clock(), 1u);
  EXPECT_EQ(activity.ranks(1).chunks(), 4u);
  EXPECT_FALSE(activity.ranks(1).waiting());
  ASSERT_EQ(activity.shards_size(), 1);
  EXPECT_EQ(activity.shards(0).address(), server.address());
  EXPECT_TRUE(activity.shards(0).connected());
  const int64_t idle_ms = activity.ranks(1).idle_ms();
  activity = AwaitActivity([&](const auto& a) { return a.ranks(1).idle_ms() > idle_ms; });
  EXPECT_EQ(activity.ranks(1).published(), 2u);
  go_on.Notify();
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(AggregatorTest, RanksWithOtherTensorsAreNamed) {
  OnRanks([&](uint32_t rank, Client* client) {
    absl::Status status = Begin(client, rank == 0 ? 700 : 701);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.ToString(), "registered other tensors")) << status;
  });
  const std::string reason = AwaitFailed();
  EXPECT_TRUE(absl::StrContains(reason, "rank 6") && absl::StrContains(reason, "rank 7")) << reason;
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, RanksWithOtherFirstWeightsAreNamed) {
  OnRanks([&](uint32_t rank, Client* client) {
    EXPECT_EQ(Begin(client, 700, 1.0f + rank).code(), absl::StatusCode::kUnavailable);
  });
  const std::string reason = AwaitFailed();
  EXPECT_TRUE(absl::StrContains(reason, "offers other first weights than rank")) << reason;
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, ARankThatDiesEndsTheJobByNameAndTheOthersDoNotHang) {
  ShardServer server;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    ASSERT_TRUE(Step(client, 1).ok());
    if (rank == 1) return;  // closes its socket, as a killed process does
    absl::Status status = absl::OkStatus();
    while (status.ok()) status = Step(client, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "rank 7 is gone before it had finished");
  });
  AwaitReady();
  SendRun(server.address());
  const proto::RankLost lost = AwaitWord().lost();
  EXPECT_EQ(lost.local_rank(), 1u);
  EXPECT_EQ(lost.text(), "rank 7 is gone before it had finished");
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AggregatorTest, ARankThatStopsEarlierThanAnotherIsNamed) {
  ShardServer server;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    ASSERT_TRUE(Step(client, 1).ok());
    if (rank == 0) {
      ASSERT_TRUE(Step(client, 1).ok());
    }
    EXPECT_EQ(client->Finish().code(), absl::StatusCode::kUnavailable);
  });
  AwaitReady();
  SendRun(server.address());
  const std::string reason = AwaitFailed();
  EXPECT_TRUE(absl::StrContains(reason, "rank 7") && absl::StrContains(reason, "after 1"))
      << reason;
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, WhatAServerRefusesReachesDaemonAndRanks) {
  ShardServer server;
  server.shard.RefusePush(3, 2, wire::ErrorCode::kNotFinite, "NaN in the sum");
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    absl::Status status = absl::OkStatus();
    while (status.ok()) status = Step(client, 1);
    EXPECT_TRUE(absl::StrContains(status.ToString(), "chunk 3 at clock 2: NaN")) << status;
  });
  AwaitReady();
  SendRun(server.address());
  EXPECT_TRUE(absl::StrContains(AwaitFailed(), server.address()));
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, EndsWhenTheDaemonIsGoneAlsoWhileRanksAreStillStarting) {
  agent_.reset();
  EXPECT_EQ(Result().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AggregatorTest, AStopEndsItAndItsRanks) {
  OnRanks([&](uint32_t, Client* client) {
    absl::Status status = Begin(client);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "the aggregator was told to stop");
  });
  AwaitReady();
  stop_.Notify();
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace strata::worker
