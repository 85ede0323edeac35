#include "worker/exchange/parameter_server_core.h"

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/exchange/fake_shard.h"

namespace strata::worker {
namespace {

using transport::ConnectionId;
using wire::Op;

constexpr uint32_t kChunkElements = 4;

proto::JobRecord Record(uint32_t chunks, uint32_t shards, uint32_t window) {
  proto::JobRecord record;
  record.set_job_id(3);
  record.mutable_job()->set_window(window);
  record.mutable_layout()->set_elements(chunks * kChunkElements - 1);  // a shorter last chunk
  record.mutable_placement()->set_chunk_elements(kChunkElements);
  for (uint32_t s = 0; s < shards; ++s) {
    record.mutable_placement()->add_shard_endpoints(absl::StrCat("tcp://shard", s));
  }
  for (uint32_t c = 0; c < chunks; ++c) record.mutable_placement()->add_shard_of_chunk(c % shards);
  return record;
}

Bytes Filled(size_t count, float value) {
  auto owner = std::make_shared<std::vector<float>>(count, value);
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), count * sizeof(float));
}

struct Faults {
  double drop = 0, duplicate = 0, disconnect = 0;
};

// One or more nodes' cores and shards, joined by a wire whose faults come from a seed. Time stands
// still while something is under way, and then jumps to the next deadline.
class World {
 public:
  World(uint32_t seed, uint32_t nodes, uint32_t chunks, uint32_t shards, uint32_t window,
        Faults faults)
      : random_(seed), faults_(faults), chunks_(chunks) {
    for (uint32_t s = 0; s < shards; ++s) shards_.emplace_back(nodes);
    for (uint32_t n = 0; n < nodes; ++n) {
      ParameterServerCore::Options options;
      options.record = Record(chunks, shards, window);
      options.node = NodeId(n);
      // HELLO is lost too, again and again.
      if (faults.drop > 0) options.timing.give_up_after = absl::Hours(1);
      nodes_.push_back(Node{*ParameterServerCore::Create(options)});
      nodes_[n].clock.assign(chunks, 0);
      nodes_[n].weights.assign(chunks, 0);
    }
  }

  // Runs all nodes for so many clocks, then finishes them.
  absl::Status Run(uint64_t clocks) {
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      Act(n, [&](CoreActions* actions) { nodes_[n].core->Start(now_, actions); });
    }
    for (int moves = 0; moves < 1000000; ++moves) {
      if (!status_.ok()) return status_;
      bool done = true;
      for (const Node& node : nodes_) {
        done = done && node.core->phase() == Exchange::Phase::kFinished;
      }
      if (done) return absl::OkStatus();
      if (random_() % 2 == 0 && Publish(random_() % nodes_.size(), clocks)) continue;
      if (Move()) continue;
      bool published = false;
      for (uint32_t n = 0; n < nodes_.size() && !published; ++n) published = Publish(n, clocks);
      if (!published) PassTime();
    }
    return absl::DeadlineExceededError("the run does not end");
  }

  struct Node {
    std::unique_ptr<ParameterServerCore> core;
    std::vector<uint64_t> clock;  // next to submit, by chunk
    std::vector<float> weights;   // in hand, by chunk
    uint64_t delivered = 0;
    uint64_t finals = 0;
    bool finishing = false;
    std::map<std::pair<uint32_t, uint64_t>, int> deliveries = {};
  };
  std::vector<Node>& nodes() { return nodes_; }
  std::vector<FakeShard>& shards() { return shards_; }
  void GoAway() { away_ = true; }
  int connections() const { return next_connection_; }

 private:
  struct Link {
    uint32_t node = 0, shard = 0;
    std::deque<wire::Frame> up, down;
  };

  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }

  // Submits one chunk whose last answer is there.
  bool Publish(uint32_t n, uint64_t clocks) {
    Node& node = nodes_[n];
    if (node.core->phase() != Exchange::Phase::kTraining) return false;
    for (uint32_t c = 0; c < chunks_; ++c) {
      const uint64_t clock = node.clock[c];
      if (clock == clocks || (clock > 0 && node.deliveries.count({c, clock - 1}) == 0)) continue;
      ++node.clock[c];
      Act(n, [&](CoreActions* actions) { node.core->Submit(ChunkId(c), actions); });
      return true;
    }
    for (uint64_t clock : node.clock) {
      if (clock < clocks) return false;
    }
    node.finishing = true;
    Act(n, [&](CoreActions* actions) { node.core->Finish(clocks, now_, actions); });
    return true;
  }

  // Moves one frame over one of the links.
  bool Move() {
    std::vector<std::pair<uint32_t, bool>> loaded;
    for (auto& [id, link] : links_) {
      if (!link.up.empty()) loaded.push_back({id, true});
      if (!link.down.empty()) loaded.push_back({id, false});
    }
    if (loaded.empty()) return false;
    auto [id, up] = loaded[random_() % loaded.size()];
    Link& link = links_[id];
    const uint32_t shard = link.shard, n = link.node;
    const ConnectionId connection(id);
    if (Chance(faults_.disconnect)) {
      links_.erase(id);
      shards_[shard].OnDisconnected(connection);
      Act(n, [&](CoreActions* actions) {
        nodes_[n].core->OnLost(connection, absl::OkStatus(), now_, actions);
      });
      return true;
    }
    std::deque<wire::Frame>& queue = up ? link.up : link.down;
    wire::Frame frame = queue.front();
    if (!Chance(faults_.duplicate)) queue.pop_front();
    if (Chance(faults_.drop)) return true;
    if (up) {
      for (FakeShard::Reply& reply : shards_[shard].OnFrame(connection, frame)) {
        auto to = links_.find(static_cast<uint32_t>(reply.connection.value()));
        if (to != links_.end()) to->second.down.push_back(std::move(reply.frame));
      }
    } else {
      Act(n, [&](CoreActions* actions) {
        Keep(nodes_[n].core->OnFrame(connection, frame, now_, actions));
      });
    }
    return true;
  }

  void PassTime() {
    absl::Time due = absl::InfiniteFuture();
    for (Node& node : nodes_) due = std::min(due, node.core->deadline());
    now_ = std::max(now_, due);
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      Act(n, [&](CoreActions* actions) { Keep(nodes_[n].core->OnTime(now_, actions)); });
    }
  }

  void Keep(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }

  template <typename Event>
  void Act(uint32_t n, Event event) {
    CoreActions actions;
    event(&actions);
    while (!actions.wire.empty() || !actions.node.empty()) {
      CoreActions now = std::exchange(actions, {});
      for (WireAction& action : now.wire) Do(n, &action, &actions);
      for (NodeAction& action : now.node) Do(n, action, &actions);
    }
  }

  void Do(uint32_t n, WireAction* action, CoreActions* more) {
    if (action->kind == WireAction::Kind::kConnect) {
      if (away_) {
        nodes_[n].core->OnConnectFailed(action->shard, absl::UnavailableError("refused"), now_,
                                        more);
        return;
      }
      const uint32_t id = next_connection_++;
      links_[id] = Link{n, action->shard.value()};
      nodes_[n].core->OnConnected(action->shard, ConnectionId(id), now_, more);
    } else if (action->kind == WireAction::Kind::kClose) {
      links_.erase(static_cast<uint32_t>(action->connection.value()));
    } else if (auto it = links_.find(action->connection.value()); it != links_.end()) {
      it->second.up.push_back(std::move(action->frame));
    }
  }

  void Do(uint32_t n, const NodeAction& action, CoreActions* more) {
    Node& node = nodes_[n];
    const uint32_t c = action.chunk.value();
    const size_t count = c + 1 == chunks_ ? kChunkElements - 1 : kChunkElements;
    switch (action.kind) {
      case NodeAction::Kind::kFirstWeights:
        node.core->OnPayload(action, Filled(count, 100), 0, now_, more);
        break;
      case NodeAction::Kind::kSum:
        EXPECT_EQ(action.clock + 1, node.clock[c]);
        node.core->OnPayload(action, Filled(count, (n + 1) * (action.clock + 1)), 8, now_, more);
        break;
      case NodeAction::Kind::kDeliver:
        ++node.delivered;
        ++node.deliveries[{c, action.clock}];
        node.weights[c] = action.weights.floats()[count - 1];
        break;
      case NodeAction::Kind::kDeliverFinal:
        ++node.finals;
        node.weights[c] = action.weights.floats()[count - 1];
        break;
    }
  }

  std::mt19937 random_;
  const Faults faults_;
  const uint32_t chunks_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Status status_;
  bool away_ = false;
  uint32_t next_connection_ = 0;
  std::map<uint32_t, Link> links_;
  std::vector<FakeShard> shards_;
  std::vector<Node> nodes_;
};

// Weights after `clocks` of them: 100 plus every node's sums.
float Expected(uint32_t nodes, uint64_t clocks) {
  float weight = 100;
  for (uint64_t t = 0; t < clocks; ++t) weight += nodes * (nodes + 1) / 2 * (t + 1);
  return weight;
}

void ExpectExactlyOnce(World* world, uint32_t chunks, uint64_t clocks) {
  const uint32_t nodes = world->nodes().size();
  for (uint32_t n = 0; n < nodes; ++n) {
    World::Node& node = world->nodes()[n];
    EXPECT_EQ(node.delivered, chunks * clocks);
    EXPECT_EQ(node.deliveries.size(), chunks * clocks);
    EXPECT_EQ(node.finals, chunks);
    for (float weight : node.weights) EXPECT_EQ(weight, Expected(nodes, clocks));
  }
  for (FakeShard& shard : world->shards()) {
    EXPECT_TRUE(shard.faults().empty()) << shard.faults().front();
  }
}

TEST(ParameterServerCoreTest, EveryChunkIsSeededTrainedAndCutOverAFaultlessWire) {
  World world(1, 1, 7, 3, 2, {});
  ASSERT_TRUE(world.Run(4).ok());
  ExpectExactlyOnce(&world, 7, 4);
  EXPECT_EQ(world.connections(), 3);
  const ExchangeCounters& counters = world.nodes()[0].core->counters();
  EXPECT_EQ(counters.pushes, 28u);
  EXPECT_EQ(counters.staleness[0], 28u);
  const uint64_t bytes = 28 * wire::kHeaderBytes + 4 * (7 * kChunkElements - 1) * sizeof(float);
  EXPECT_EQ(counters.bytes_pushed, bytes);
  EXPECT_EQ(counters.bytes_answered, bytes);
}

TEST(ParameterServerCoreTest, DeliversExactlyOnceThoughFramesAreLostRepeatedAndConnectionsBreak) {
  int replays = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    World world(seed, 1 + seed % 3, 9, 1 + seed % 2, 2 + seed % 3, {0.2, 0.2, 0.02});
    absl::Status status = world.Run(5);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    ExpectExactlyOnce(&world, 9, 5);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    for (const FakeShard& shard : world.shards()) replays += shard.replays();
  }
  EXPECT_GT(replays, 1000);
}

TEST(ParameterServerCoreTest, RetryIsRepeatedLater) {
  World world(1, 1, 3, 1, 2, {});
  world.shards()[0].RetryNext(20);
  ASSERT_TRUE(world.Run(2).ok());
  ExpectExactlyOnce(&world, 3, 2);
}

TEST(ParameterServerCoreTest, ARefusedPushNamesNodeServerChunkAndClock) {
  World world(1, 1, 3, 1, 2, {});
  world.shards()[0].RefusePush(2, 1, wire::ErrorCode::kNotFinite, "NaN in the sum");
  absl::Status status = world.Run(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "node 0: server tcp://shard0 refused chunk 2 at clock 1: NaN in the sum");
}

TEST(ParameterServerCoreTest, AServerThatCannotBeReachedIsGivenUpByName) {
  World world(1, 1, 3, 2, 2, {});
  world.GoAway();
  absl::Status status = world.Run(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "node 0: server tcp://shard0 could not be reached for 30s (refused)");
}

TEST(ParameterServerCoreTest, APlacementThatDoesNotFitTheLayoutIsRefused) {
  ParameterServerCore::Options options;
  options.record = Record(4, 2, 2);
  options.record.mutable_placement()->mutable_shard_of_chunk()->RemoveLast();
  absl::Status status = ParameterServerCore::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "placement.shard_of_chunk has 3 entries for 4 chunks");
  options.record.mutable_placement()->add_shard_of_chunk(2);
  EXPECT_FALSE(ParameterServerCore::Create(options).ok());
}

}  // namespace
}  // namespace strata::worker
