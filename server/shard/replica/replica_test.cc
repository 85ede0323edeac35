// Nodes and a shard in two copies over a network that duplicates frames and cuts connections, from
// a seed. Copies die, stop and go on, or are kept from each other; one that
// is left is made the primary. Each push must count exactly once, and in sync the weights must have
// the bits of a run in which nothing happened.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"
#include "server/shard/testing/sim_copy.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using transport::SimEndpoint;
using wire::Frame;
using wire::Op;

constexpr uint32_t kNodes = 4;
constexpr uint32_t kChunks = 2;
constexpr uint64_t kClocks = 12;
constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push
constexpr char kAddresses[2][8] = {"first", "second"};
constexpr int kEventsMax = 400000;

// What happens to the two copies.
enum class Fate { kNothing, kPrimaryDies, kBackupDies, kPrimaryStops, kTheyAreKeptApart };

// A node's side of one chunk.
struct NodeChunk {
  bool seeded = false;
  uint64_t clock = 0;  // of the push in hand; kClocks: done
  bool waiting = false;
  uint64_t base_version = 0;
  std::vector<float> final_weights;
};

struct Node {
  std::unique_ptr<SimEndpoint> endpoint;
  std::optional<ConnectionId> connection;
  bool greeted = false;
  bool retired = false;
  std::string address = kAddresses[0];
  uint32_t generation = 2;
  std::vector<NodeChunk> chunks = std::vector<NodeChunk>(kChunks);
};

class Simulation {
 public:
  Simulation(const std::string& mode, const std::string& optimizer, Fate fate, uint32_t seed)
      : is_async_(mode == "async {}"),
        counts_(optimizer == "sgd {}"),
        fate_(fate),
        network_(seed),
        copies_{SimCopy(&network_, kAddresses[0], 0), SimCopy(&network_, kAddresses[1], 1)} {
    JobOptions options;
    options.ranks.assign(kNodes, 1);
    options.elements = kElements * kChunks;
    options.chunk_elements = kElements;
    options.batch_per_rank = 1;
    options.job_text =
        "optimizer { " + optimizer + " } schedule { base_lr: 1 } consistency { " + mode + " }";
    record_ = MakeRecord(options);
    record_.mutable_placement()->set_shard_endpoints(0, kAddresses[0]);
    record_.mutable_placement()->add_backup_endpoints(kAddresses[1]);
    EXPECT_TRUE(copies_[0].core().Install(record_, ShardId(0)).ok());
    EXPECT_TRUE(copies_[1].core().Install(record_, ShardId(0), {}, ShardCopy::kBackup).ok());
    if (fate != Fate::kNothing) {
      network_.set_faults({.duplicate = 0.1,
                           .break_both = 0.005,
                           .break_one = 0.005,
                           .notice_max = absl::Milliseconds(20)});
    }
    for (uint32_t node = 0; node < kNodes; ++node) {
      SimEndpoint::Options endpoint;
      endpoint.name = "node";
      endpoint.host = 2;
      endpoint.addresses_are_names = true;
      endpoint.on_ready = [this, node] { TurnOfNode(node); };
      nodes_[node].endpoint = std::make_unique<SimEndpoint>(&network_, endpoint);
    }
  }

  // Until every node has the last weights.
  void Run() {
    for (uint32_t node = 0; node < kNodes; ++node) Tick(node);
    TickCopies();
    // After so many confirmations to nodes: of first weights, pushes, the end and last weights.
    fate_after_ = network_.random().Below(kNodes * (kChunks * (kClocks + 2) + 1));
    for (int events = 0; !Done(); ++events) {
      ASSERT_LT(events, kEventsMax) << "no progress: " << Describe();
      ASSERT_TRUE(network_.RunOne());
      if (testing::Test::HasFailure()) return;
    }
  }

  std::vector<float> Final() const {
    std::vector<float> all;
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      const std::vector<float>& weights = nodes_[0].chunks[chunk].final_weights;
      for (const Node& node : nodes_) EXPECT_EQ(node.chunks[chunk].final_weights, weights);
      all.insert(all.end(), weights.begin(), weights.end());
    }
    return all;
  }
  bool met_fate() const { return met_fate_; }

 private:
  bool Done() const {
    for (const Node& node : nodes_) {
      for (const NodeChunk& chunk : node.chunks) {
        if (chunk.final_weights.empty()) return false;
      }
    }
    return true;
  }

  std::string Describe() const {
    std::string text = met_fate_ ? "after fate" : "before fate";
    for (const Node& node : nodes_) {
      text += node.greeted ? ", greeted" : ", not greeted";
      text += node.retired ? " and retired:" : ":";
      for (const NodeChunk& chunk : node.chunks) {
        text += (chunk.seeded ? " " : " first weights ") + std::to_string(chunk.clock);
      }
    }
    return text;
  }

  // The part of the coordinator. It takes its time, and so does each node's word of it.
  void MeetFate() {
    met_fate_ = !Done();
    switch (fate_) {
      case Fate::kNothing:
        return;
      case Fate::kPrimaryDies:
        copies_[0].Die();
        return Later([this] { PromoteTheBackup(); });
      case Fate::kBackupDies:
        copies_[1].Die();
        return Later([this] { GoOnAlone(); });
      case Fate::kPrimaryStops:
        copies_[0].Stop();
        return Later([this] {
          PromoteTheBackup();
          Later([this] { copies_[0].GoOn(); });
        });
      case Fate::kTheyAreKeptApart:
        network_.CutPair(0, 1, true);
        return Later([this] { PromoteTheBackup(); });
    }
  }

  void PromoteTheBackup() {
    copies_[1].Do([this](auto* actions) {
      EXPECT_EQ(copies_[1].core().Promote(JobId(record_.job_id()), ShardId(0), 3, actions),
                absl::OkStatus());
    });
    for (Node& node : nodes_) {
      Later([this, &node] {
        node.address = kAddresses[1];
        node.generation = 3;
        Reconnect(&node);
      });
    }
  }
  void GoOnAlone() {
    copies_[0].Do([this](auto* actions) {
      EXPECT_EQ(copies_[0].core().GoOnAlone(JobId(record_.job_id()), ShardId(0), 3, actions),
                absl::OkStatus());
    });
    // Nodes that have not heard of it are heard all the same.
    Later([this] { nodes_[0].generation = 3; });
  }
  void Later(std::function<void()> what) {
    network_.After(network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(20)),
                   std::move(what));
  }

  void TickCopies() {
    for (SimCopy& copy : copies_) copy.OnTime();
    network_.After(absl::Milliseconds(1), [this] { TickCopies(); });
  }

  // Every now and then a node says HELLO or what it has to say, also again, or connects anew.
  void Tick(uint32_t id) {
    Node& node = nodes_[id];
    if (!node.connection || network_.random().Chance(0.02)) Reconnect(&node);
    if (!node.greeted) {
      Send(&node, HelloFrame(record_, id));
    } else if (AllClocksAreDone(node) && !node.retired) {
      Send(&node, ControlFrame(record_, Op::kRetire, id, 0, kClocks));
    } else {
      Say(id, static_cast<uint32_t>(network_.random().Below(kChunks)));
    }
    const absl::Duration pause =
        network_.random().Between(absl::Microseconds(50), absl::Microseconds(500));
    network_.After(pause, [this, id] { Tick(id); });
  }

  static bool AllClocksAreDone(const Node& node) {
    return absl::c_all_of(node.chunks, [](const NodeChunk& c) { return c.clock == kClocks; });
  }

  void Reconnect(Node* node) {
    if (node->connection) node->endpoint->Close(*node->connection);
    node->greeted = false;
    node->connection = *node->endpoint->Connect(node->address);
  }

  void Send(Node* node, Frame frame) {
    frame.header.generation = node->generation;
    EXPECT_EQ(node->endpoint->Send(*node->connection, frame), absl::OkStatus());
  }

  void Say(uint32_t id, uint32_t chunk) {
    NodeChunk& state = nodes_[id].chunks[chunk];
    if (!state.seeded) {
      const std::vector<float> first(kElements, counts_ ? 0.0f : 0.25f);
      return Send(&nodes_[id], InitFrame(record_, id, chunk, first));
    }
    if (nodes_[id].retired) {
      return Send(&nodes_[id], ControlFrame(record_, Op::kCut, id, chunk, kClocks));
    }
    if (state.clock == kClocks) return;
    state.waiting = true;
    Send(&nodes_[id], PushFrame(record_, id, chunk, state.clock, SumOf(id, chunk, state.clock), 1,
                                state.base_version));
  }

  std::vector<float> SumOf(uint32_t node, uint32_t chunk, uint64_t clock) const {
    std::vector<float> sum(kElements, 0.0f);
    if (counts_) {
      // Per clock the divisor is the samples of all nodes, else only this push's.
      sum[node * kClocks + clock] = is_async_ ? -1.0f : -1.0f * kNodes;
      return sum;
    }
    for (uint32_t i = 0; i < kElements; ++i) {
      sum[i] = 0.01f * static_cast<float>((i * 31 + node * 17 + chunk * 5 + clock * 7) % 97);
    }
    return sum;
  }

  void TurnOfNode(uint32_t id) {
    Node& node = nodes_[id];
    std::vector<transport::Event> events;
    node.endpoint->Poll(absl::InfiniteDuration(), &events);
    for (const transport::Event& event : events) {
      if (event.connection != node.connection) continue;
      if (event.kind != transport::Event::Kind::kFrame) {
        node.connection.reset();
        node.greeted = false;
      } else if (event.frame.header.op == Op::kHelloOk) {
        node.greeted = true;
      } else {
        DeliverToNode(&node, event.frame);
      }
    }
  }

  void DeliverToNode(Node* node, const Frame& frame) {
    const wire::Header& header = frame.header;
    NodeChunk& state = node->chunks[header.chunk];
    switch (header.op) {
      case Op::kInitOk:
        if (!std::exchange(state.seeded, true)) OnConfirmed();
        return;
      case Op::kAnswer:
        if (!state.waiting || header.clock != state.clock) return;
        state.waiting = false;
        ++state.clock;
        state.base_version = header.version;
        return OnConfirmed();
      case Op::kRetireOk:
        if (!std::exchange(node->retired, true)) OnConfirmed();
        return;
      case Op::kCutAnswer:
        if (state.final_weights.empty()) OnConfirmed();
        state.final_weights = ToFloats(frame);
        return;
      default:
        EXPECT_EQ(header.op, Op::kRetry);
    }
  }

  void OnConfirmed() {
    if (confirmed_++ == fate_after_) network_.After(absl::ZeroDuration(), [this] { MeetFate(); });
  }

  const bool is_async_;
  const bool counts_;  // pushes, in place of training
  const Fate fate_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  std::array<SimCopy, 2> copies_;
  std::array<Node, kNodes> nodes_;
  uint64_t confirmed_ = 0, fate_after_ = 0;
  bool met_fate_ = false;
};

constexpr Fate kFates[] = {Fate::kPrimaryDies, Fate::kBackupDies, Fate::kPrimaryStops,
                           Fate::kTheyAreKeptApart};

class ReplicaExactlyOnce : public testing::TestWithParam<std::string> {};

TEST_P(ReplicaExactlyOnce, WhicheverCopyIsLeft) {
  int met = 0;
  for (const Fate fate : kFates) {
    for (uint32_t seed = 1; seed <= 200; ++seed) {
      SCOPED_TRACE("fate " + std::to_string(static_cast<int>(fate)) + " seed " +
                   std::to_string(seed));
      Simulation simulation(GetParam(), "sgd {}", fate, seed);
      simulation.Run();
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(simulation.Final(), std::vector<float>(kElements * kChunks, 1.0f));
      ASSERT_FALSE(HasFailure());
      met += simulation.met_fate();
    }
  }
  EXPECT_GT(met, 700);
}

std::string ToString(const testing::TestParamInfo<std::string>& info) {
  const char* names[] = {"Sync", "Lazy", "LazyOnArrival", "Async"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplicaExactlyOnce,
                         testing::Values("sync {}", "lazy { staleness: 2 }",
                                         "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}"),
                         ToString);

TEST(Replica, InSyncTheWeightsHaveTheBitsOfAnUndisturbedRun) {
  for (const char* optimizer : {"momentum_sgd { momentum: 0.9 }", "adamw {}"}) {
    Simulation undisturbed("sync {}", optimizer, Fate::kNothing, 1);
    undisturbed.Run();
    const std::vector<float> expected = undisturbed.Final();
    for (const Fate fate : kFates) {
      for (uint32_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE("fate " + std::to_string(static_cast<int>(fate)) + " seed " +
                     std::to_string(seed));
        Simulation simulation("sync {}", optimizer, fate, seed);
        simulation.Run();
        ASSERT_FALSE(HasFailure());
        EXPECT_EQ(simulation.Final(), expected);
      }
    }
  }
}

}  // namespace
}  // namespace strata::server
