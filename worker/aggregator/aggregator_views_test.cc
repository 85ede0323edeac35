// A node of a job whose nodes change while it trains.
#include <atomic>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/aggregator/testing/aggregator_fixture.h"
#include "worker/aggregator/testing/three_nodes.h"
#include "worker/client/client_views.h"

namespace strata::worker {
namespace {

// Ranks 0 to 5 are node 3's, 6 and 7 this node's, number 0, and 8 and 9 those of node 1, which is
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

}  // namespace
}  // namespace strata::worker
