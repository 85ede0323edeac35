// Nodes and a shard over a network that drops, duplicates and reorders frames and cuts connections,
// from a seed. Each push must count exactly once, and every answer must obey the job's mode.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::Frame;
using wire::Op;

constexpr uint32_t kNodes = 4;
constexpr uint32_t kChunks = 2;
constexpr uint64_t kClocks = 6;
constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push

// A node's side of one chunk.
struct NodeChunk {
  uint64_t clock = 0;  // of the push in hand; kClocks: done
  bool waiting = false;
  uint64_t base_version = 0;
};

class Simulation {
 public:
  Simulation(const std::string& mode, uint32_t seed) : mode_(mode), random_(seed) {
    JobOptions options;
    options.ranks.assign(kNodes, 1);
    options.elements = kElements * kChunks;
    options.chunk_elements = kElements;
    options.batch_per_rank = 1;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " }";
    record_ = RecordOf(options);
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node = 0; node < kNodes; ++node)
      connections_.push_back(shard_.Join(record_, node));
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      shard_.Deliver(connections_[0],
                     InitFrame(record_, 0, chunk, std::vector<float>(kElements, 0.0f)));
    }
    nodes_.assign(kNodes, std::vector<NodeChunk>(kChunks));
    received_.assign(kNodes, std::vector<uint64_t>(kChunks, 0));
  }

  // Until every push of every clock has been answered.
  void Run() {
    int steps = 0;
    while (!Done()) {
      ASSERT_LT(++steps, 200000) << "no progress";
      const uint32_t dice = random_() % 100;
      if (dice < 2) {
        Reconnect(random_() % kNodes);
      } else if (dice < 30 || flying_.empty()) {
        Push(random_() % kNodes, random_() % kChunks);
      } else {
        MoveOne();
      }
      if (testing::Test::HasFailure()) return;
    }
  }

  // The ledger: each element belongs to one push and has been stepped once, to exactly one.
  void ExpectEachPushCountedOnce() {
    for (uint32_t node = 0; node < kNodes; ++node) {
      shard_.Deliver(connections_[node], ControlFrame(record_, Op::kRetire, node, 0, 0));
    }
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      const Frame final =
          shard_.DeliverForOne(connections_[0], ControlFrame(record_, Op::kCut, 0, chunk, kClocks));
      EXPECT_EQ(FloatsOf(final), std::vector<float>(kElements, 1.0f)) << "chunk " << chunk;
    }
    const ShardCounters counters = shard_.core().Counters().at(JobId(record_.job_id()));
    EXPECT_EQ(counters.pushes, kNodes * kChunks * kClocks);
    EXPECT_GT(counters.duplicates, 0u);
    EXPECT_EQ(counters.refused, 0u);
  }

 private:
  struct Flying {
    bool to_shard;
    ConnectionId connection;
    Frame frame;
  };

  bool Done() const {
    for (const auto& chunks : nodes_) {
      for (const NodeChunk& chunk : chunks) {
        if (chunk.clock < kClocks) return false;
      }
    }
    return true;
  }

  // Starts the next push, or sends the one that waits for its answer again.
  void Push(uint32_t node, uint32_t chunk) {
    NodeChunk& state = nodes_[node][chunk];
    if (state.clock == kClocks) return;
    state.waiting = true;
    std::vector<float> sum(kElements, 0.0f);
    // Per clock the divisor is the samples of all nodes, else only this push's.
    sum[node * kClocks + state.clock] = mode_ == "async {}" ? -1.0f : -1.0f * kNodes;
    flying_.push_back({true, connections_[node],
                       PushFrame(record_, node, chunk, state.clock, sum, 1, state.base_version)});
  }

  void Reconnect(uint32_t node) {
    const ConnectionId old = connections_[node];
    shard_.core().OnDisconnected(old);
    std::erase_if(flying_, [&](const Flying& flying) { return flying.connection == old; });
    connections_[node] = shard_.Join(record_, node);
  }

  // Drops, duplicates or delivers any frame of those on their way.
  void MoveOne() {
    const size_t index = random_() % flying_.size();
    const uint32_t dice = random_() % 100;
    const Flying flying = flying_[index];
    if (dice >= 50) {  // else it stays, and comes once more
      flying_[index] = flying_.back();
      flying_.pop_back();
    }
    if (dice >= 70) return;  // lost
    if (flying.to_shard) {
      DeliverToShard(flying);
    } else {
      DeliverToNode(flying.frame);
    }
  }

  void DeliverToShard(const Flying& flying) {
    const wire::Header& push = flying.frame.header;
    uint64_t& received = received_[push.node][push.chunk];
    received = std::max(received, push.clock + 1);
    for (const Sent& sent : shard_.Deliver(flying.connection, flying.frame)) {
      CheckAnswer(sent.frame);
      flying_.push_back({false, sent.connection, sent.frame});
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
      ASSERT_EQ(FloatsOf(frame)[header.node * kClocks + header.clock], 1.0f);
    }
  }

  void DeliverToNode(const Frame& frame) {
    NodeChunk& state = nodes_[frame.header.node][frame.header.chunk];
    if (!state.waiting || frame.header.clock != state.clock) return;
    state.waiting = false;
    ++state.clock;
    state.base_version = frame.header.version;
  }

  const std::string mode_;
  std::mt19937 random_;
  proto::JobRecord record_;
  ShardHarness shard_;
  std::vector<ConnectionId> connections_;
  std::vector<std::vector<NodeChunk>> nodes_;
  std::vector<std::vector<uint64_t>> received_;  // a model of the shard's watermarks
  std::vector<Flying> flying_;
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

std::string NameOf(const testing::TestParamInfo<std::string>& info) {
  const char* names[] = {"Sync", "Lazy", "LazyOnArrival", "Async"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardCoreExactlyOnce,
                         testing::Values("sync {}", "lazy { staleness: 2 }",
                                         "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}"),
                         NameOf);

}  // namespace
}  // namespace strata::server
