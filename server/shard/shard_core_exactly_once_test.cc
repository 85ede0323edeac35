// Nodes and a shard over a network that drops, duplicates and reorders frames and cuts connections,
// from a seed. Each push must count exactly once, and every answer must obey the job's mode.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using transport::SimEndpoint;
using wire::Frame;
using wire::Op;

constexpr uint32_t kNodes = 4;
constexpr uint32_t kChunks = 2;
constexpr uint64_t kClocks = 6;
constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push
constexpr char kShard[] = "shard";
constexpr int kEventsMax = 200000;
// Connections of the test's own, beside those of the network.
constexpr uint64_t kOwnConnections = uint64_t{1} << 40;

// A node's side of one chunk.
struct NodeChunk {
  uint64_t clock = 0;  // of the push in hand; kClocks: done
  bool waiting = false;
  uint64_t base_version = 0;
};

struct Node {
  std::unique_ptr<SimEndpoint> endpoint;
  std::optional<ConnectionId> connection;
  bool greeted = false;
  std::vector<NodeChunk> chunks = std::vector<NodeChunk>(kChunks);
};

class Simulation {
 public:
  Simulation(const std::string& mode, uint32_t seed) : mode_(mode), network_(seed) {
    JobOptions options;
    options.ranks.assign(kNodes, 1);
    options.elements = kElements * kChunks;
    options.chunk_elements = kElements;
    options.batch_per_rank = 1;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " }";
    record_ = MakeRecord(options);
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    const ConnectionId first = Join(0);
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      shard_.Deliver(first, InitFrame(record_, 0, chunk, std::vector<float>(kElements, 0.0f)));
    }
    shard_.Lose(first);
    received_.assign(kNodes, std::vector<uint64_t>(kChunks, 0));
    network_.set_faults({.drop = 0.3, .duplicate = 0.5, .reorder = 0.5, .break_one = 0.005});
    shard_endpoint_ = Endpoint(kShard, [this] { TurnOfShard(); });
    EXPECT_TRUE(shard_endpoint_->Listen(kShard).ok());
    for (uint32_t node = 0; node < kNodes; ++node) {
      nodes_[node].endpoint = Endpoint("node", [this, node] { TurnOfNode(node); });
    }
  }

  // Until every push of every clock has been answered.
  void Run() {
    for (uint32_t node = 0; node < kNodes; ++node) Tick(node);
    for (int events = 0; !Done(); ++events) {
      ASSERT_LT(events, kEventsMax) << "no progress";
      ASSERT_TRUE(network_.RunOne());
      if (testing::Test::HasFailure()) return;
    }
  }

  // The ledger: each element belongs to one push and has been stepped once, to exactly one.
  void ExpectEachPushCountedOnce() {
    for (const ConnectionId connection : open_) shard_.Lose(connection);
    std::vector<ConnectionId> last;
    for (uint32_t node = 0; node < kNodes; ++node) {
      last.push_back(Join(node));
      shard_.Deliver(last[node], ControlFrame(record_, Op::kRetire, node, 0, 0));
    }
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      const Frame final =
          shard_.DeliverForOne(last[0], ControlFrame(record_, Op::kCut, 0, chunk, kClocks));
      EXPECT_EQ(ToFloats(final), std::vector<float>(kElements, 1.0f)) << "chunk " << chunk;
    }
    const ShardCounters counters = shard_.core().Counters().at(JobId(record_.job_id()));
    EXPECT_EQ(counters.pushes, kNodes * kChunks * kClocks);
    EXPECT_GT(counters.duplicates, 0u);
    EXPECT_EQ(counters.refused, 0u);
  }

 private:
  std::unique_ptr<SimEndpoint> Endpoint(const std::string& name, std::function<void()> on_ready) {
    SimEndpoint::Options options;
    options.name = name;
    options.addresses_are_names = true;
    options.on_ready = std::move(on_ready);
    return std::make_unique<SimEndpoint>(&network_, options);
  }

  // A connection of the node beside the network, which HELLO has opened.
  ConnectionId Join(uint32_t node) {
    const ConnectionId connection(kOwnConnections + own_connections_++);
    const Frame answer = shard_.DeliverForOne(connection, HelloFrame(record_, node));
    EXPECT_EQ(answer.header.op, Op::kHelloOk);
    return connection;
  }

  bool Done() const {
    for (const Node& node : nodes_) {
      for (const NodeChunk& chunk : node.chunks) {
        if (chunk.clock < kClocks) return false;
      }
    }
    return true;
  }

  // Every now and then a node says HELLO, pushes, pushes again, or connects anew.
  void Tick(uint32_t id) {
    Node& node = nodes_[id];
    if (!node.connection || network_.random().Chance(0.03)) {
      Reconnect(&node);
    }
    if (node.greeted) {
      Push(id, static_cast<uint32_t>(network_.random().Below(kChunks)));
    } else {
      Send(&node, HelloFrame(record_, id));
    }
    const absl::Duration pause =
        network_.random().Between(absl::Microseconds(50), absl::Microseconds(500));
    network_.After(pause, [this, id] { Tick(id); });
  }

  void Reconnect(Node* node) {
    if (node->connection) node->endpoint->Close(*node->connection);
    node->greeted = false;
    node->connection = *node->endpoint->Connect(kShard);
  }

  void Send(Node* node, const Frame& frame) {
    EXPECT_EQ(node->endpoint->Send(*node->connection, frame), absl::OkStatus());
  }

  // Starts the next push, or sends the one that waits for its answer again.
  void Push(uint32_t id, uint32_t chunk) {
    NodeChunk& state = nodes_[id].chunks[chunk];
    if (state.clock == kClocks) return;
    state.waiting = true;
    std::vector<float> sum(kElements, 0.0f);
    // Per clock the divisor is the samples of all nodes, else only this push's.
    sum[id * kClocks + state.clock] = mode_ == "async {}" ? -1.0f : -1.0f * kNodes;
    Send(&nodes_[id], PushFrame(record_, id, chunk, state.clock, sum, 1, state.base_version));
  }

  void TurnOfShard() {
    std::vector<transport::Event> events;
    shard_endpoint_->Poll(absl::InfiniteDuration(), &events);
    for (const transport::Event& event : events) {
      if (event.kind == transport::Event::Kind::kFrame) {
        open_.insert(event.connection);
        DeliverToShard(event.connection, event.frame);
      } else {
        open_.erase(event.connection);
        shard_.Lose(event.connection);
      }
    }
  }

  void DeliverToShard(ConnectionId connection, const Frame& frame) {
    const bool is_push = frame.header.op == Op::kPushPull;
    if (is_push) {
      uint64_t& received = received_[frame.header.node][frame.header.chunk];
      received = std::max(received, frame.header.clock + 1);
    }
    for (const Sent& sent : shard_.Deliver(connection, frame)) {
      if (is_push) CheckAnswer(sent.frame);
      // What goes to a connection that is gone is lost.
      shard_endpoint_->Send(sent.connection, sent.frame).IgnoreError();
    }
  }

  void TurnOfNode(uint32_t id) {
    Node& node = nodes_[id];
    std::vector<transport::Event> events;
    node.endpoint->Poll(absl::InfiniteDuration(), &events);
    for (const transport::Event& event : events) {
      if (event.connection != node.connection) continue;
      if (event.kind != transport::Event::Kind::kFrame) {
        node.connection.reset();
      } else if (event.frame.header.op == Op::kHelloOk) {
        node.greeted = true;
      } else {
        DeliverToNode(event.frame);
      }
    }
  }

  void CheckAnswer(const Frame& frame) {
    const wire::Header& header = frame.header;
    ASSERT_EQ(header.op, Op::kAnswer);
    uint64_t slowest = kClocks;
    for (uint32_t node = 0; node < kNodes; ++node) {
      slowest = std::min(slowest, received_[node][header.chunk]);
    }
    ASSERT_EQ(header.min_clock, slowest);
    ASSERT_EQ(header.received, received_[header.node][header.chunk]);
    if (mode_ == "sync {}") {
      ASSERT_EQ(header.version, header.clock + 1);
      ASSERT_GE(slowest, header.clock + 1);
    } else if (mode_ != "async {}") {
      ASSERT_GE(slowest + 2, header.clock + 1);
      ASSERT_LE(header.staleness, 2u);
    }
    // A node sees its own push, and in sync all of that clock, in the answer to it.
    if (mode_ == "sync {}" || mode_ == "async {}") {
      ASSERT_EQ(ToFloats(frame)[header.node * kClocks + header.clock], 1.0f);
    }
  }

  void DeliverToNode(const Frame& frame) {
    NodeChunk& state = nodes_[frame.header.node].chunks[frame.header.chunk];
    if (!state.waiting || frame.header.clock != state.clock) return;
    state.waiting = false;
    ++state.clock;
    state.base_version = frame.header.version;
  }

  const std::string mode_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  ShardHarness shard_;
  std::unique_ptr<SimEndpoint> shard_endpoint_;
  std::array<Node, kNodes> nodes_;
  std::vector<std::vector<uint64_t>> received_;  // a model of the shard's watermarks
  std::set<ConnectionId> open_;                  // that the shard has heard of
  uint64_t own_connections_ = 0;
};

class ShardCoreExactlyOnce : public testing::TestWithParam<std::string> {};

TEST_P(ShardCoreExactlyOnce, UnderLossDuplicationReorderingAndReconnects) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(GetParam(), seed);
    simulation.Run();
    ASSERT_FALSE(HasFailure());
    simulation.ExpectEachPushCountedOnce();
    ASSERT_FALSE(HasFailure());
  }
}

std::string ToString(const testing::TestParamInfo<std::string>& info) {
  const char* names[] = {"Sync", "Lazy", "LazyOnArrival", "Async"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardCoreExactlyOnce,
                         testing::Values("sync {}", "lazy { staleness: 2 }",
                                         "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}"),
                         ToString);

}  // namespace
}  // namespace strata::server
