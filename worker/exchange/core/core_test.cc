#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/event_fd.h"
#include "gtest/gtest.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/link_driver.h"
#include "worker/exchange/core/peerless_core.h"
#include "worker/exchange/core/push_window.h"

namespace strata::worker {
namespace {

// Nodes whose ranks have the same batch must agree on the samples of all, or their learning rates
// differ.
TEST(NodeShare, NodesOfAnySizeAgreeOnTheSamplesOfAll) {
  for (uint32_t ranks = 1; ranks <= 70; ++ranks) {
    for (uint32_t own = 1; own <= ranks; ++own) {
      proto::JobRecord record;
      record.mutable_view()->add_nodes()->set_ranks(own);
      if (own < ranks) {
        proto::LogicalNode* other = record.mutable_view()->add_nodes();
        other->set_node(1);
        other->set_ranks(ranks - own);
      }
      for (const uint64_t batch : {1, 3, 16, 100}) {
        EXPECT_EQ(NodeShare::Of(record, NodeId(0)).JobSamples(own * batch), ranks * batch)
            << own << " of " << ranks;
      }
    }
  }
}

TEST(NodeShare, ANodeThatIsNotInTheJobStandsForNothing) {
  EXPECT_EQ(NodeShare::Of(proto::JobRecord(), NodeId(3)).JobSamples(5), 0u);
}

TEST(RanksCore, NobodyIsWaitedForWhenTrainingBegins) {
  const EventFd wake = *EventFd::Create();
  const RealClock clock;
  // If each call waited, this would take five minutes.
  for (int i = 0; i < 300; ++i) {
    const auto exchange = WithoutPeers(std::make_unique<RanksCore>(0), wake.fd(), &clock);
    ASSERT_EQ(exchange->Start(), absl::OkStatus());
    ASSERT_EQ(exchange->Poll(absl::Seconds(1)), absl::OkStatus());
    ASSERT_EQ(exchange->phase(), Exchange::Phase::kTraining);
  }
}

TEST(RanksCore, ItsDescriptorEndsAWait) {
  const EventFd wake = *EventFd::Create();
  const RealClock clock;
  const auto exchange = WithoutPeers(std::make_unique<RanksCore>(0), wake.fd(), &clock);
  ASSERT_EQ(exchange->Start(), absl::OkStatus());
  wake.Notify();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(exchange->Poll(absl::Seconds(1)), absl::OkStatus());
  ASSERT_EQ(exchange->Finish(3), absl::OkStatus());
  EXPECT_EQ(exchange->phase(), Exchange::Phase::kFinished);
}

using transport::ConnectionId;
using transport::Event;

// Sends nothing, and counts lost connections.
class SilentCore final : public LinkCore {
 public:
  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time, CoreActions*) override {
    if (event.kind == LinkEvent::Kind::kLost) ++lost;
    return absl::OkStatus();
  }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  const std::string& address(LinkId) const override { return address_; }

  int lost = 0;

 private:
  const std::string address_;
};

// Reports the events of a test's script.
class ScriptedEndpoint final : public transport::Endpoint {
 public:
  absl::StatusOr<int> Listen(const std::string&) override { return 1; }
  absl::StatusOr<ConnectionId> Connect(const std::string&) override { return ConnectionId(1); }
  absl::Status Send(ConnectionId, const wire::Frame&) override { return absl::OkStatus(); }
  void Poll(absl::Duration, std::vector<Event>* events) override {
    *events = std::exchange(happened, {});
  }
  void WatchFd(int) override {}
  transport::EndpointUse use() const override { return counted; }
  void Close(ConnectionId) override {}
  void Wake() override {}

  std::vector<Event> happened;
  transport::EndpointUse counted;
};

Event EventOf(Event::Kind kind, const absl::Status& why) {
  Event event;
  event.kind = kind;
  event.connection = ConnectionId(5);
  event.error = why;
  return event;
}

TEST(LinkDriver, CountsWhatItsEndpointRefusesAndWhatCannotBeRead) {
  SilentCore core;
  ScriptedEndpoint endpoint;
  const RealClock clock;
  LinkDriver driver(&core, &endpoint, &clock,
                    [](const NodeAction&, CoreActions*) { return absl::OkStatus(); });
  EXPECT_EQ(driver.refusals(), transport::Refusals());
  endpoint.counted.unsealed = 1;  // as the endpoint has counted what comes second
  endpoint.counted.broken_seals = 2;
  endpoint.happened = {
      EventOf(Event::Kind::kMalformed, absl::InvalidArgumentError("noise")),
      EventOf(Event::Kind::kMalformed, absl::PermissionDeniedError("without a seal")),
      EventOf(Event::Kind::kDisconnected, absl::UnavailableError("gone"))};
  ASSERT_EQ(driver.Poll(absl::ZeroDuration()), absl::OkStatus());
  EXPECT_EQ(
      driver.refusals(),
      (transport::Refusals{{"malformed", 1}, {"frame without a seal", 1}, {"broken seal", 2}}));
  EXPECT_EQ(core.lost, 3);
}

std::vector<ChunkId> Chunks(uint32_t count) {
  std::vector<ChunkId> chunks;
  for (uint32_t c = 0; c < count; ++c) chunks.push_back(ChunkId(c));
  return chunks;
}

TEST(PushWindowTest, UrgentChunksGoFirstAndOneSlotIsKeptForTheLowest) {
  PushWindow window(Chunks(6), 3);
  for (uint32_t c : {1, 2, 3, 4}) window.Ready(ChunkId(c));
  EXPECT_EQ(window.Next(), ChunkId(4));
  EXPECT_EQ(window.Next(), ChunkId(3));
  EXPECT_EQ(window.Next(), std::nullopt);  // 0 is the lowest and not ready
  window.Ready(ChunkId(0));
  EXPECT_EQ(window.Next(), ChunkId(0));
  EXPECT_EQ(window.unanswered(), 3u);
  EXPECT_EQ(window.Next(), std::nullopt);
  window.Answered(ChunkId(0));
  EXPECT_EQ(window.Next(), ChunkId(1));  // now the lowest
  window.Answered(ChunkId(4));
  EXPECT_EQ(window.Next(), ChunkId(2));
}

TEST(PushWindowTest, AnOlderClockIsMoreUrgentThanAHigherIndex) {
  PushWindow window(Chunks(3), 2);
  window.Ready(ChunkId(2));
  EXPECT_EQ(window.Next(), ChunkId(2));
  window.Answered(ChunkId(2));
  window.Ready(ChunkId(2));  // clock 1
  window.Ready(ChunkId(1));  // clock 0
  EXPECT_EQ(window.Next(), ChunkId(1));
}

// Nodes that share one synchronous shard: chunk c of a clock is answered once all have pushed it.
// Every node's backward pass makes its chunks ready in ascending order, at a random pace.
class SyncRun {
 public:
  SyncRun(uint32_t seed, int nodes, uint32_t chunks, uint32_t window, uint64_t clocks,
          PushWindow::Reserve reserve)
      : random_(seed), chunks_(chunks), window_(window), clocks_(clocks), pushed_(chunks, 0) {
    for (int i = 0; i < nodes; ++i)
      nodes_.push_back(Node(PushWindow(Chunks(chunks), window, reserve)));
  }

  // Returns whether every clock completes; false if all nodes wait for each other.
  bool Completes() {
    while (true) {
      std::vector<Node*> movable;
      bool done = true;
      for (Node& node : nodes_) {
        done = done && node.clock == clocks_;
        if (CanPublish(node) || node.may_push) movable.push_back(&node);
      }
      if (done) return true;
      if (movable.empty()) return false;
      Move(movable[random_() % movable.size()]);
    }
  }

 private:
  struct Node {
    explicit Node(PushWindow w) : window(std::move(w)) {}
    PushWindow window;
    uint64_t clock = 0;
    uint32_t published = 0;  // in this clock
    uint32_t answered = 0;   // in this clock
    bool may_push = false;
  };

  bool CanPublish(const Node& node) const {
    return node.clock < clocks_ && node.published < chunks_;
  }

  void Move(Node* node) {
    if (CanPublish(*node) && (!node->may_push || random_() % 2 == 0)) {
      node->window.Ready(ChunkId(node->published++));
      node->may_push = true;
      return;
    }
    std::optional<ChunkId> chunk = node->window.Next();
    node->may_push = chunk.has_value();
    if (!chunk) return;
    EXPECT_LE(node->window.unanswered(), window_);
    if (++pushed_[chunk->value()] % nodes_.size() == 0) Answer(*chunk);
  }

  void Answer(ChunkId chunk) {
    for (Node& node : nodes_) {
      node.window.Answered(chunk);
      node.may_push = true;
      if (++node.answered < chunks_) continue;
      node.answered = node.published = 0;
      ++node.clock;
    }
  }

  std::mt19937 random_;
  const uint32_t chunks_;
  const uint32_t window_;
  const uint64_t clocks_;
  std::vector<uint64_t> pushed_;  // by chunk, over all nodes and clocks
  std::vector<Node> nodes_;
};

TEST(PushWindowTest, WithTheReservedSlotNoScheduleLocksUp) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const int nodes = 2 + seed % 4;
    const uint32_t window = 2 + seed % 5;
    SyncRun run(seed, nodes, 64, window, 3, PushWindow::Reserve::kLowest);
    ASSERT_TRUE(run.Completes()) << "seed " << seed;
  }
}

TEST(PushWindowTest, WithoutTheReservedSlotNodesLockUp) {
  int locked = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SyncRun run(seed, 2, 64, 4, 3, PushWindow::Reserve::kNothing);
    if (!run.Completes()) ++locked;
  }
  EXPECT_GT(locked, 150);
}

}  // namespace
}  // namespace strata::worker
