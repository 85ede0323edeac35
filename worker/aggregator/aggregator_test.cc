#include "worker/aggregator/aggregator.h"

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/client/client_parts.h"
#include "worker/testing/aggregator_fixture.h"

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

// A node whose job resumes from a checkpoint.

using ResumeTest = AggregatorFixture;

// Resumes with 6 steps made and weights of 20.
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

// A process that replaces one that died, which had pushed 6 times.
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

// The same in rounds of three steps, of which the last has one: there are ten.
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
  // The previous process had pushed `rounds` rounds, after which servers have weights of 20.
  void ExpectToContinue(uint64_t rounds, uint64_t first_step, float last_weight) {
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

TEST_F(ShorterRoundTest, IsMadeAgainWhereItWasNotPushed) { ExpectToContinue(3, 9, 21); }

TEST_F(ShorterRoundTest, ThatWasPushedIsOverAndRanksHaveMadeNoMoreStepsThanTheJobHas) {
  ExpectToContinue(4, 10, 20);
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

// A node of a job whose nodes change while it trains.

// Ranks 0 to 5 are node 3's, 6 and 7 this node's (number 0), and 8 and 9 those of node 1, which is
// absent.
class ViewsTest : public AggregatorFixture {
 protected:
  void LayOut() {
    proto::JobRecord* const record = launch_.mutable_record();
    record->mutable_job()->set_ranks(8);
    record->mutable_job()->set_ranks_min(2);
    record->mutable_job()->set_ranks_max(10);
    SetThreeNodes(record->mutable_view());
    record->mutable_view()->mutable_nodes(2)->set_absent(true);
  }
  // Returns the clock that the node promises.
  uint64_t Propose(uint32_t number) {
    proto::AgentMessage message;
    message.mutable_propose_view()->set_number(number);
    EXPECT_TRUE(agent_->Send(message).ok());
    const proto::ChildMessage answer = AwaitWord();
    EXPECT_TRUE(answer.has_view_promised()) << answer.DebugString();
    EXPECT_EQ(answer.view_promised().number(), number);
    return answer.view_promised().from_clock();
  }
  void Change(uint32_t number, uint64_t at, std::optional<uint32_t> joined,
              std::optional<uint32_t> left) {
    proto::AgentMessage message;
    proto::ViewChange* const change = message.mutable_change_view();
    change->set_number(number);
    change->set_at_clock(at);
    if (joined) change->add_joined(*joined);
    if (left) change->add_left(*left);
    ASSERT_TRUE(agent_->Send(message).ok());
  }
  void AwaitHeldAt(uint64_t clock) {
    AwaitActivity([&](const proto::NodeActivity& activity) {
      return activity.phase() == "waiting for a change of the job's nodes" &&
             activity.ranks(0).clock() == clock && activity.ranks(1).clock() == clock &&
             activity.ranks(0).waiting() && activity.ranks(1).waiting();
    });
  }
};

TEST_F(ViewsTest, RanksAreToldWhoMakesEachStepAndLeaveWithTheirNode) {
  ShardServer server;
  LayOut();
  std::atomic<uint64_t> joined_at = 0, left_at = 0;
  OnRanks([&](uint32_t rank, Client* client) {
    absl::Status status = Begin(client);
    ASSERT_TRUE(status.ok()) << status;
    uint64_t step = 0, rank_steps = 0;
    for (;; ++step) {
      absl::StatusOr<client::StepRanks> ranks = client->views().At(step);
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      if (!ranks->makes_it) break;
      ASSERT_EQ(ranks->rank, 6 + rank);
      ASSERT_EQ(ranks->ranks, joined_at > 0 && step >= joined_at ? 10u : 8u) << "step " << step;
      ASSERT_EQ(ranks->rank_steps_before, rank_steps);
      rank_steps += ranks->ranks;
      status = Step(client, 1);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(step, left_at.load());
    status = client->Finish();
    EXPECT_TRUE(status.ok()) << status;
  });
  AwaitReady();
  SendRun(server.address());
  const uint64_t first = Propose(2);
  AwaitHeldAt(first);
  joined_at = first + 2;
  Change(2, joined_at, 1, std::nullopt);
  const uint64_t second = Propose(3);
  EXPECT_GT(second, joined_at.load());
  AwaitHeldAt(second);
  left_at = second;
  Change(3, left_at, std::nullopt, 0);
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
  EXPECT_TRUE(server.shard.faults().empty());
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server.shard.taken(0, c), left_at.load());
}

TEST_F(ViewsTest, AProgramThatDoesNotAskIsStoppedAtItsNextStep) {
  ShardServer server;
  LayOut();
  OnRanks([&](uint32_t, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    absl::Status status;
    while (status.ok()) status = Step(client, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    EXPECT_TRUE(client->Finish().ok());
  });
  AwaitReady();
  SendRun(server.address());
  Change(2, Propose(2), std::nullopt, 0);
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(ViewsTest, AChangeThatIsGivenUpLetsRanksGoOn) {
  ShardServer server;
  LayOut();
  absl::Notification closed;
  uint64_t until = 0;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    closed.WaitForNotification();
    for (uint64_t step = 0; step < until; ++step) ASSERT_TRUE(Step(client, 1).ok());
    if (rank == 0) {
      EXPECT_EQ(*client->views().AtIfKnown(until), std::nullopt);
      EXPECT_TRUE((*client->views().AtIfKnown(until - 1))->makes_it);
    }
    ASSERT_TRUE(Step(client, 1).ok());
    EXPECT_TRUE(client->Finish().ok());
  });
  AwaitReady();
  SendRun(server.address());
  until = Propose(2);
  closed.Notify();
  AwaitHeldAt(until);
  Change(2, 0, std::nullopt, std::nullopt);
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server.shard.taken(0, c), until + 1);
}

class CanRejoin : public testing::Test {
 protected:
  CanRejoin() {
    launch_.set_node(3);
    launch_.set_incarnation(2);
    launch_.mutable_record()->mutable_job()->mutable_replace()->set_per_hour(1);
    offer_.set_can_resume(true);
  }
  void ExpectRefused(const char* why) {
    const absl::Status status = CheckCanRejoin(launch_, offer_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                testing::StartsWith(
                    std::string("node 3 cannot take the place of the one that died: ") + why));
  }
  proto::Launch launch_;
  proto::Offer offer_;
};

TEST_F(CanRejoin, ANodeWhoseProgramBeginsAnywhereAndKeepsNothing) {
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
}

TEST_F(CanRejoin, NotOneWhoseProgramBeginsWithItsFirstStep) {
  offer_.set_can_resume(false);
  ExpectRefused("its program has not said");
}

TEST_F(CanRejoin, NotOneWhoseRanksKeepState) {
  offer_.set_keeps_state(true);
  ExpectRefused("its ranks keep state");
}

TEST_F(CanRejoin, AFirstProcessTakesNobodysPlace) {
  offer_.set_can_resume(false);
  launch_.set_incarnation(1);
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
  launch_.set_incarnation(2);
  launch_.mutable_record()->mutable_job()->clear_replace();
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
}

// It is absent from its record's view.
TEST_F(CanRejoin, ANodeThatJoinsTheJobMustBeAbleToo) {
  launch_.set_incarnation(1);
  proto::LogicalNode* const node = launch_.mutable_record()->mutable_view()->add_nodes();
  node->set_node(3);
  node->set_ranks(1);
  node->set_absent(true);
  EXPECT_EQ(CheckCanRejoin(launch_, offer_), absl::OkStatus());
  offer_.set_can_resume(false);
  EXPECT_THAT(std::string(CheckCanRejoin(launch_, offer_).message()),
              testing::StartsWith("node 3 cannot join the job: its program has not said"));
  offer_.set_can_resume(true);
  offer_.set_keeps_state(true);
  EXPECT_THAT(std::string(CheckCanRejoin(launch_, offer_).message()),
              testing::StartsWith("node 3 cannot join the job: its ranks keep state"));
}

}  // namespace
}  // namespace strata::worker
