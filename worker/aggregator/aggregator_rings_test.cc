#include <algorithm>
#include <atomic>
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
#include "common/job/views.h"
#include "gtest/gtest.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/client/aggregator_link.h"
#include "worker/client/client_parts.h"
#include "worker/contract/rank_protocol.pb.h"
#include "worker/exchange/core/peerless_core.h"
#include "worker/testing/aggregator_fixture.h"

// A node whose all-reduce stops, and continues without a node that has died.

namespace strata::worker {
namespace {

// The calls to a test's ring, and its answers.
struct Script {
  std::atomic<bool> seeds = true;   // it has its first weights at once
  std::atomic<uint64_t> clock = 0;  // steps that it has made
  std::atomic<bool> cannot_go_on = false;
  std::atomic<uint32_t> stopped = 0;        // the newest number
  std::atomic<uint32_t> formed = 0;         // likewise
  std::atomic<uint32_t> forms = 0;          // number of calls
  std::atomic<uint64_t> finished_with = 0;  // steps
};

// A ring whose other nodes are always in time, unless it is stopped. Its job is over when the test
// says so, or at once if it was not stopped.
class FakeRing final : public PeerlessCore {
 public:
  FakeRing(Script* script, NodeArenas* arenas) : script_(script), arenas_(arenas) {}

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override {
    if (event.kind == LinkEvent::Kind::kStart && !script_->seeds) return absl::OkStatus();
    return PeerlessCore::OnLinkEvent(event, now, actions);
  }
  absl::Time deadline() const override {
    return std::min(PeerlessCore::deadline(), absl::Now() + absl::Milliseconds(10));
  }
  absl::Status Submit(ChunkId chunk, absl::Time, CoreActions*) override { return Sum(chunk); }
  absl::Status Finish(uint64_t clocks, absl::Time, CoreActions*) override {
    script_->finished_with = clocks;
    phase_ = Phase::kFinishing;
    return absl::OkStatus();
  }
  absl::StatusOr<StoppedRing> StopRing(uint32_t number, absl::Time, CoreActions*) override {
    if (script_->cannot_go_on) return absl::FailedPreconditionError("its ring is of another kind");
    is_stopped_ = true;
    script_->stopped = number;
    return StoppedRing{.clock = script_->clock, .is_over = phase_ == Phase::kFinished};
  }
  absl::Status FormRing(const proto::FormRing& forming, absl::Time, CoreActions*) override {
    script_->formed = forming.change().number();
    ++script_->forms;
    if (forming.is_over()) phase_ = Phase::kFinished;
    is_stopped_ = false;
    for (const ChunkId chunk : std::exchange(waiting_, {})) {
      if (absl::Status status = Sum(chunk); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Sum(ChunkId chunk) {
    if (is_stopped_) {
      waiting_.push_back(chunk);
      return absl::OkStatus();
    }
    const uint64_t clock = clocks_[chunk.value()]++;
    script_->clock = *std::min_element(clocks_.begin(), clocks_.end());
    return arenas_->MeanIntoWeights(chunk, clock);
  }

  Script* const script_;
  NodeArenas* const arenas_;
  bool is_stopped_ = false;
  std::vector<ChunkId> waiting_;
  std::vector<uint64_t> clocks_ = std::vector<uint64_t>(4, 0);
};

// Ranks 0 to 5 are node 3's, 6 and 7 this node's (number 0), and 8 and 9 those of node 1.
class RingsTest : public AggregatorFixture {
 protected:
  void SetUp() override {
    options_.exchange = [this](NodeArenas* arenas) {
      return std::make_unique<FakeRing>(&script_, arenas);
    };
    AggregatorFixture::SetUp();
    proto::JobRecord* const record = launch_.mutable_record();
    record->mutable_job()->set_ranks(10);
    record->mutable_job()->set_ranks_min(2);
    record->mutable_job()->set_on_loss(proto::Job::DROP);
    SetThreeNodes(record->mutable_view());
  }
  static void TrainUntilAnError(Client* client) {
    absl::Status status = Begin(client);
    while (status.ok()) status = Step(client, 1);
  }
  void AwaitSteps(uint64_t count) {
    const absl::Time deadline = absl::Now() + kDeadline;
    while (script_.clock < count && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_GE(script_.clock, count);
  }
  void Stop(uint32_t number) {
    proto::AgentMessage message;
    message.mutable_stop_ring()->set_number(number);
    ASSERT_TRUE(agent_->Send(message).ok());
  }
  proto::RingStopped AwaitStopped() {
    const proto::ChildMessage answer = AwaitWord();
    EXPECT_TRUE(answer.has_ring_stopped()) << answer.DebugString();
    return answer.ring_stopped();
  }
  proto::FormRing Forming(uint32_t number, uint64_t clock, uint64_t at_clock,
                          const std::vector<uint32_t>& nodes, const std::vector<uint32_t>& left) {
    proto::FormRing forming;
    forming.set_clock(clock);
    for (const uint32_t node : nodes) forming.add_nodes(node);
    forming.mutable_change()->set_number(number);
    forming.mutable_change()->set_at_clock(at_clock);
    for (const uint32_t node : left) forming.mutable_change()->add_left(node);
    return forming;
  }
  void Form(const proto::FormRing& forming) {
    proto::AgentMessage message;
    *message.mutable_form_ring() = forming;
    ASSERT_TRUE(agent_->Send(message).ok());
  }
  void AwaitPhase(const std::string& phase) {
    AwaitActivity([&](const proto::NodeActivity& activity) { return activity.phase() == phase; });
  }

  Script script_;
};

TEST_F(RingsTest, RanksGoNoFurtherThanTheyWereToldBeforeTheRingIsThere) {
  std::atomic<uint64_t> dropped_at = 0;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    for (uint64_t step = 0; dropped_at == 0 || step < dropped_at + 2; ++step) {
      const absl::StatusOr<client::StepRanks> ranks = client->views().At(step);
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      EXPECT_EQ(ranks->ranks, dropped_at > 0 && step >= dropped_at ? 4u : 10u) << "step " << step;
      EXPECT_EQ(ranks->rank, dropped_at > 0 && step >= dropped_at ? rank : 6 + rank);
      const absl::Status made = Step(client, 1);
      ASSERT_TRUE(made.ok()) << made;
    }
    EXPECT_TRUE(client->Finish().ok());
  });
  AwaitReady();
  SendRun("");
  AwaitSteps(5);
  Stop(2);
  const proto::RingStopped first = AwaitStopped();
  EXPECT_EQ(first.node(), 0u);
  EXPECT_EQ(first.number(), 2u);
  EXPECT_EQ(first.clock(), script_.clock);
  EXPECT_FALSE(first.is_over());
  EXPECT_GE(first.from_clock(), first.clock());
  EXPECT_LE(first.from_clock(), first.clock() + 2) << "nothing goes on that a margin would be for";
  AwaitPhase("waiting for a ring without a node that was lost");

  Stop(2);
  EXPECT_EQ(AwaitStopped().from_clock(), first.from_clock()) << "it is asked again";
  Stop(3);
  const proto::RingStopped second = AwaitStopped();
  EXPECT_EQ(second.number(), 3u) << "another one has died meanwhile";
  EXPECT_EQ(second.from_clock(), first.from_clock());
  Stop(2);  // outdated
  Stop(3);
  EXPECT_EQ(AwaitStopped().number(), 3u);
  dropped_at = second.from_clock() + 1;
  Form(Forming(3, second.clock(), dropped_at, {0, 1}, {3}));
  AwaitPhase("finishing");
  EXPECT_EQ(script_.formed, 3u);
  EXPECT_EQ(script_.finished_with, dropped_at + 2);
  proto::FormRing over = Forming(4, dropped_at + 2, dropped_at + 10, {0, 1}, {});
  over.set_is_over(true);
  Stop(4);
  const proto::RingStopped third = AwaitStopped();
  EXPECT_EQ(third.number(), 4u) << "a node that is finishing stops, too";
  EXPECT_EQ(third.clock(), dropped_at + 2);
  Form(over);
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(RingsTest, AWordThatIsOldChangesNothing) {
  OnRanks([&](uint32_t, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    for (uint64_t step = 0; step < 40; ++step) ASSERT_TRUE(Step(client, 1).ok());
    EXPECT_TRUE(client->Finish().ok());
  });
  AwaitReady();
  SendRun("");
  AwaitSteps(1);
  Stop(2);
  const proto::RingStopped stopped = AwaitStopped();
  EXPECT_EQ(stopped.error(), "");
  const proto::FormRing forming =
      Forming(2, stopped.clock(), stopped.from_clock() + 50, {0, 1}, {3});
  Form(forming);
  Form(forming);
  Stop(2);
  AwaitPhase("finishing");
  EXPECT_EQ(script_.stopped, 2u);
  EXPECT_EQ(script_.forms, 1u);
  EXPECT_EQ(script_.finished_with, 40u);
  proto::FormRing over = Forming(3, 40, stopped.from_clock() + 51, {0, 1}, {});
  over.set_is_over(true);
  Form(over);
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(RingsTest, ANodeWithoutWeightsCannotGoOn) {
  script_.seeds = false;
  OnRanks([&](uint32_t, Client* client) { EXPECT_FALSE(Begin(client).ok()); });
  AwaitReady();
  SendRun("");
  Stop(2);
  const proto::RingStopped stopped = AwaitStopped();
  EXPECT_EQ(stopped.error(), "node 0 (w1): its first weights are not there yet");
  EXPECT_EQ(stopped.number(), 2u);
  EXPECT_EQ(script_.stopped, 0u);
  stop_.Notify();
  JoinRanks();
}

TEST_F(RingsTest, AnExchangeThatCannotGoOnSaysWhy) {
  script_.cannot_go_on = true;
  OnRanks([&](uint32_t, Client* client) { TrainUntilAnError(client); });
  AwaitReady();
  SendRun("");
  AwaitPhase("training");
  Stop(2);
  EXPECT_EQ(AwaitStopped().error(), "node 0 (w1): its ring is of another kind");
  stop_.Notify();
  JoinRanks();
}

TEST_F(RingsTest, ARingOfOtherNodesThanShareTheSamplesEndsTheJob) {
  OnRanks([&](uint32_t, Client* client) { TrainUntilAnError(client); });
  AwaitReady();
  SendRun("");
  AwaitPhase("training");
  Stop(2);
  const proto::RingStopped stopped = AwaitStopped();
  Form(Forming(2, stopped.clock(), stopped.from_clock(), {0, 1}, {}));
  JoinRanks();
  EXPECT_EQ(Result().message(),
            "ring 2 has nodes 0, 1, but by the changes that this node knows the job has 0, 1, 3");
}

// A node whose ranks all-reduce among themselves, stop, and continue without a node that has died.

using client::AggregatorLink;

// Ranks 0 to 5 are node 3's, 6 and 7 this node's (number 0), and 8 and 9 those of node 1. The test
// simulates what ranks do on their devices.
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
  // A rank that has left knows that all ranks of the job have made all steps.
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
