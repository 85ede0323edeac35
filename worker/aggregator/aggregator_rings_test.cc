// A node whose all-reduce stops, and goes on without a node that has died.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/aggregator/host/node_arenas.h"
#include "worker/aggregator/testing/aggregator_fixture.h"
#include "worker/aggregator/testing/three_nodes.h"
#include "worker/client/client_views.h"
#include "worker/exchange/core/exchange.h"

namespace strata::worker {
namespace {

// What the ring of a test was told, and what it is to say of itself.
struct Script {
  std::atomic<bool> seeds = true;   // it has its first weights at once
  std::atomic<uint64_t> clock = 0;  // steps that it has made
  std::atomic<bool> cannot_go_on = false;
  std::atomic<uint32_t> stopped = 0;        // the newest number
  std::atomic<uint32_t> formed = 0;         // likewise
  std::atomic<uint32_t> forms = 0;          // how often
  std::atomic<uint64_t> finished_with = 0;  // steps
};

// A ring whose other nodes are always in time, unless it is stopped. Its job is over when it is
// told so, or at once where nobody has stopped it.
class FakeRing final : public Exchange {
 public:
  FakeRing(Script* script, NodeArenas* arenas, int wake_fd)
      : script_(script), arenas_(arenas), wake_fd_(wake_fd) {}

  absl::Status Start() override {
    if (script_->seeds) phase_ = Phase::kTraining;
    return absl::OkStatus();
  }
  absl::Status Submit(ChunkId chunk) override {
    if (is_stopped_) {
      waiting_.push_back(chunk);
      return absl::OkStatus();
    }
    const uint64_t clock = clocks_[chunk.value()]++;
    script_->clock = *std::min_element(clocks_.begin(), clocks_.end());
    return arenas_->MeanIntoWeights(chunk, clock);
  }
  absl::Status Finish(uint64_t clocks) override {
    script_->finished_with = clocks;
    phase_ = Phase::kFinishing;
    return absl::OkStatus();
  }
  absl::Status Poll(absl::Duration timeout) override {
    pollfd wake{wake_fd_, POLLIN, 0};
    poll(&wake, 1, static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(timeout), 10)));
    return absl::OkStatus();
  }
  absl::StatusOr<StoppedRing> StopRing(uint32_t number) override {
    if (script_->cannot_go_on) return absl::FailedPreconditionError("its ring is of another kind");
    is_stopped_ = true;
    script_->stopped = number;
    return StoppedRing{.clock = script_->clock, .is_over = phase_ == Phase::kFinished};
  }
  absl::Status FormRing(const proto::FormRing& forming) override {
    script_->formed = forming.change().number();
    ++script_->forms;
    if (forming.is_over()) phase_ = Phase::kFinished;
    is_stopped_ = false;
    for (const ChunkId chunk : std::exchange(waiting_, {})) {
      if (absl::Status status = Submit(chunk); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  Phase phase() const override { return phase_; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override { return 0; }
  void AddActivity(proto::NodeActivity*) const override {}

 private:
  Script* const script_;
  NodeArenas* const arenas_;
  const int wake_fd_;
  Phase phase_ = Phase::kSeeding;
  bool is_stopped_ = false;
  std::vector<ChunkId> waiting_;
  std::vector<uint64_t> clocks_ = std::vector<uint64_t>(4, 0);
  const ExchangeCounters counters_;
};

// Ranks 0 to 5 are node 3's, 6 and 7 this node's, number 0, and 8 and 9 those of node 1.
class RingsTest : public AggregatorFixture {
 protected:
  void SetUp() override {
    options_.exchange = [this](NodeArenas* arenas, int wake_fd) {
      return std::make_unique<FakeRing>(&script_, arenas, wake_fd);
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
  Stop(2);  // old news
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

}  // namespace
}  // namespace strata::worker
