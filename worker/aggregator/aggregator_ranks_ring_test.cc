// A node whose ranks all-reduce among themselves, stop, and go on without a node that has died.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/job/exchange/views.h"
#include "gtest/gtest.h"
#include "worker/aggregator/testing/aggregator_fixture.h"
#include "worker/aggregator/testing/three_nodes.h"
#include "worker/client/link/aggregator_link.h"
#include "worker/contract/rank_protocol.pb.h"

namespace strata::worker {
namespace {

using client::AggregatorLink;

// Ranks 0 to 5 are node 3's, 6 and 7 this node's, number 0, and 8 and 9 those of node 1. What ranks
// do on their devices, the test says for them.
class RanksRingTest : public AggregatorFixture {
 protected:
  void SetUp() override {
    AggregatorFixture::SetUp();
    proto::JobRecord* const record = launch_.mutable_record();
    record->mutable_job()->set_ranks(10);
    record->mutable_job()->set_ranks_min(2);
    record->mutable_job()->set_exchange(proto::Job::NCCL);
    record->mutable_job()->set_on_loss(proto::Job::DROP);
    SetThreeNodes(record->mutable_view());
  }

  // Runs one body per rank, once it may train.
  void OnLinks(const std::function<void(uint32_t, AggregatorLink&)>& body) {
    for (uint32_t r = 0; r < kRanks; ++r) {
      ranks_.emplace_back([this, r, body] {
        proto::Launch launch = launch_;
        launch.set_rank(kFirstRank + r);
        launch.set_local_rank(r);
        auto link = AggregatorLink::Connect(launch, nullptr);
        ASSERT_TRUE(link.ok()) << link.status();
        proto::Layout layout;
        layout.set_elements(kElements);
        proto::Segment* const segment = layout.add_segments();
        segment->set_name("w");
        segment->add_shape(kElements);
        segment->set_lr_multiplier(1);
        segment->set_decay_multiplier(1);
        ASSERT_TRUE((*link)->Allocate(layout).ok());
        const auto run = (*link)->Start({.samples_per_epoch = 100, .total_steps = 10});
        ASSERT_TRUE(run.ok()) << run.status();
        body(r, **link);
      });
    }
  }
  void Train() {
    AwaitReady();
    SendRun("");
    AwaitPhase("training");
  }
  void AwaitPhase(const std::string& phase) {
    AwaitActivity([&](const proto::NodeActivity& activity) { return activity.phase() == phase; });
  }

  // A rank stops for the ring of this number, once it is asked to.
  static void Stop(AggregatorLink& link, uint32_t number, uint64_t steps, const std::string& id,
                   bool has_begun = true) {
    const absl::Time until = absl::Now() + kDeadline;
    while (link.ring_asked() < number && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(link.ring_asked(), number);
    proto::RankStopped stopped;
    stopped.set_number(number);
    stopped.set_has_begun(has_begun);
    stopped.set_steps(steps);
    stopped.set_nccl_id(id);
    link.SayStopped(stopped);
  }
  static proto::RankRing AwaitRing(AggregatorLink& link) {
    const auto ring = link.AwaitRing([&] { return link.CheckAlive(); });
    EXPECT_TRUE(ring.ok()) << ring.status();
    return ring.ok() ? *ring : proto::RankRing();
  }

  void StopNode(uint32_t number) {
    proto::AgentMessage message;
    message.mutable_stop_ring()->set_number(number);
    ASSERT_TRUE(agent_->Send(message).ok());
  }
  proto::RingStopped AwaitStopped() {
    const proto::ChildMessage answer = AwaitWord();
    EXPECT_TRUE(answer.has_ring_stopped()) << answer.DebugString();
    return answer.ring_stopped();
  }
  void Form(uint32_t number, const proto::RingStopped& stopped, const std::vector<uint32_t>& left) {
    proto::AgentMessage message;
    proto::FormRing* const forming = message.mutable_form_ring();
    forming->set_clock(stopped.clock());
    forming->set_is_over(stopped.is_over());
    for (const uint32_t node : {0, 1}) forming->add_nodes(node);
    forming->set_nccl_id("by which all meet");
    forming->mutable_change()->set_number(number);
    forming->mutable_change()->set_at_clock(stopped.from_clock() + 10 * number);
    for (const uint32_t node : left) forming->mutable_change()->add_left(node);
    ASSERT_TRUE(agent_->Send(message).ok());
  }
};

TEST_F(RanksRingTest, AnswersOnceAllRanksHaveStoppedAndHasThemGoOn) {
  absl::Notification heard, leaves;
  OnLinks([&](uint32_t rank, AggregatorLink& link) {
    if (rank == 1) heard.WaitForNotification();
    Stop(link, 2, 5 - rank, absl::StrCat("of ", rank));
    const proto::RankRing ring = AwaitRing(link);
    EXPECT_EQ(ring.number(), 2u);
    EXPECT_EQ(ring.ranks(), 4u);
    EXPECT_EQ(ring.rank(), rank);
    EXPECT_EQ(ring.nccl_id(), "by which all meet");
    EXPECT_FALSE(ring.is_over());
    Views views = Views::Of(launch_.record()).value();
    EXPECT_TRUE(link.LearnViews(5, /*waits=*/true, &views).value());
    EXPECT_EQ(views.number(), 2u) << "heard before the ring";
    if (rank == 1) {
      leaves.WaitForNotification();
      Stop(link, 3, 9, "");
      const proto::RankRing over = AwaitRing(link);
      EXPECT_EQ(over.number(), 3u);
      EXPECT_TRUE(over.is_over());
    }
    EXPECT_EQ(link.Finish(9), absl::OkStatus());
    EXPECT_EQ(link.TakeLateChanges().size(), 1u);
  });
  Train();
  StopNode(2);
  AwaitPhase("waiting for a ring without a node that was lost");
  heard.Notify();
  const proto::RingStopped first = AwaitStopped();
  EXPECT_EQ(first.number(), 2u);
  EXPECT_EQ(first.clock(), 5u) << "of the rank that is furthest";
  EXPECT_EQ(first.nccl_id(), "of 0");
  EXPECT_FALSE(first.is_over());
  StopNode(2);
  EXPECT_EQ(AwaitStopped().SerializeAsString(), first.SerializeAsString()) << "it is asked again";
  Form(2, first, {3});
  Form(2, first, {3});
  AwaitPhase("training");
  // One that has left knows that all ranks of the job have made all steps.
  AwaitActivity([](const proto::NodeActivity& activity) { return activity.ranks(0).waiting(); });
  leaves.Notify();
  StopNode(3);
  const proto::RingStopped second = AwaitStopped();
  EXPECT_EQ(second.number(), 3u);
  EXPECT_EQ(second.clock(), 9u);
  EXPECT_TRUE(second.is_over());
  Form(3, second, {});
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(RanksRingTest, RanksThatHaveNotMetYetCannotGoOn) {
  absl::Notification answered;
  OnLinks([&](uint32_t rank, AggregatorLink& link) {
    Stop(link, 2, 0, "", /*has_begun=*/rank == 0);
    answered.WaitForNotification();
  });
  Train();
  StopNode(2);
  EXPECT_EQ(AwaitStopped().error(), "node 0 (w1): its ranks have not agreed on the first weights");
  stop_.Notify();
  answered.Notify();
  JoinRanks();
}

TEST_F(RanksRingTest, ARingWithANodeThatTheJobDoesNotHaveEndsTheJob) {
  OnLinks([&](uint32_t, AggregatorLink& link) {
    Stop(link, 2, 0, "");
    EXPECT_FALSE(link.AwaitRing([&] { return link.CheckAlive(); }).ok());
  });
  Train();
  StopNode(2);
  proto::AgentMessage message;
  message.mutable_form_ring()->mutable_change()->set_number(2);
  message.mutable_form_ring()->mutable_change()->set_at_clock(AwaitStopped().from_clock() + 1);
  message.mutable_form_ring()->add_nodes(7);
  message.mutable_form_ring()->set_is_over(true);
  ASSERT_TRUE(agent_->Send(message).ok());
  JoinRanks();
  EXPECT_EQ(Result().message(), "ring 2 has node 7, which the job does not have");
}

}  // namespace
}  // namespace strata::worker
