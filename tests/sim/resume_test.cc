// Jobs that are stopped at any point and resume from the newest images that all of their chunks
// have, on other shards: real shards and real exchanges on a network that loses and repeats frames
// and breaks connections.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/image/chunk_image.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"
#include "tests/sim/cluster/job_run.h"
#include "worker/testing/training_node.h"

namespace strata::sim {
namespace {

constexpr uint32_t kChunks = 5, kChunkElements = 64;
constexpr uint64_t kClocks = 14, kEvery = 4;
constexpr uint32_t kBatch = 4;  // samples of a node in each step
constexpr int kEventsMax = 1'000'000;

using Checkpoint = std::vector<ChunkImage>;  // by chunk

// A quorum's clock divides by all its pushes, and there may be many late ones.
constexpr float kMarkOfQuorum = 840;

struct Case {
  std::string name, job;
  bool has_ledger = false;

  bool has_quorum() const { return absl::StrContains(job, "quorum"); }
  // Returns true if one push may have left this value in its element; with a quorum two pushes
  // would usually leave another one.
  bool CountsOnce(float found) const {
    if (!has_quorum()) return found == 1;
    const float pushes = kMarkOfQuorum / found;
    return std::abs(pushes - std::round(pushes)) < 1e-2f && pushes > 0.5f;
  }
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// A job's nodes and shards, from its beginning or from a checkpoint.
class Cluster {
 public:
  Cluster(const Case& one, uint64_t seed, uint32_t nodes, uint32_t shards,
          const Checkpoint* checkpoint)
      : case_(one), network_(seed), images_() {
    network_.set_faults({.drop = 0.1, .duplicate = 0.1, .break_both = 0.01});
    record_ = server::MakeRecord({.ranks = std::vector<uint32_t>(nodes, 1),
                                  .elements = kChunks * kChunkElements,
                                  .chunk_elements = kChunkElements,
                                  .shards = shards,
                                  .batch_per_rank = kBatch,
                                  .job_text = one.job});
    record_.mutable_job()->mutable_checkpoint()->set_every_steps(kEvery);
    if (checkpoint != nullptr) record_.mutable_resume()->set_clock((*checkpoint)[0].clock);
    for (uint32_t s = 0; s < shards; ++s) {
      shards_.push_back(std::make_unique<JobShard>(&network_, record_, s));
      if (checkpoint == nullptr) continue;
      EXPECT_EQ(shards_.back()->Restore(*checkpoint), absl::OkStatus());
    }
    for (uint32_t node = 0; node < nodes; ++node) AddNode(node);
  }

  // Processes this many events, or all. Returns false if it has not ended by then. Errors end the
  // test.
  bool Run(int events_max) {
    for (const auto& node : nodes_) node->Start();
    for (int events = 0; events < events_max; ++events) {
      const bool all_over = std::all_of(nodes_.begin(), nodes_.end(),
                                        [](const auto& node) { return node->is_over(); });
      if (all_over || !network_.RunOne()) break;
      ++events_;
      TakeImages();
    }
    bool finished = true;
    for (const auto& node : nodes_) {
      EXPECT_EQ(node->status(), absl::OkStatus());
      finished = finished && node->finals() == kChunks;
    }
    for (const auto& shard : shards_) EXPECT_EQ(shard->refused(), 0u);
    return finished;
  }

  // Returns the newest checkpoint with all chunks; empty: none.
  Checkpoint NewestCheckpoint() const {
    Checkpoint newest;
    for (const auto& [clock, chunks] : images_) {
      if (chunks.size() < kChunks) continue;
      newest.clear();
      for (const auto& [chunk, image] : chunks) newest.push_back(image);
    }
    return newest;
  }

  int events() const { return events_; }
  const worker::TrainingNode& node(size_t i) const { return *nodes_[i]; }
  size_t nodes() const { return nodes_.size(); }

 private:
  void AddNode(uint32_t node) {
    worker::TrainingNode::Options options;
    options.core.record = record_;
    options.core.node = NodeId(node);
    options.core.incarnation = 1;
    options.core.timing.give_up_after = absl::Hours(1);
    options.name = absl::StrCat("n", node);
    options.addresses_are_names = true;
    options.clocks = kClocks;
    options.samples = kBatch;
    options.first_weight = [this](uint64_t i) {
      return case_.has_ledger ? 0.0f : 0.01f * static_cast<float>(i % 97);
    };
    options.gradient = [this, node](uint64_t clock, uint64_t i) {
      return case_.has_ledger ? Mark(node, clock, i) : Gradient(node, clock, i);
    };
    nodes_.push_back(std::make_unique<worker::TrainingNode>(&network_, std::move(options)));
  }
  // A store takes each cut at once.
  void TakeImages() {
    for (const auto& shard : shards_) {
      for (server::ShardCut& cut : shard->TakeCuts()) {
        for (ChunkImage& image : cut.images) {
          const uint64_t chunk = image.begin / kChunkElements;
          images_[cut.clock][static_cast<uint32_t>(chunk)] = std::move(image);
        }
        shard->ReleaseCut(cut.shard, cut.clock);
      }
    }
  }
  // Depends on the node's weights, so a wrong starting point shows.
  float Gradient(uint32_t node, uint64_t clock, uint64_t i) const {
    const uint64_t mixed = (node * 131 + clock) * 7919 + i * 104729;
    return static_cast<float>(mixed % 1009) / 100 - 5 + nodes_[node]->weights()[i];
  }
  // Adds 1 to the element of each chunk that belongs to this node and clock.
  float Mark(uint32_t node, uint64_t clock, uint64_t i) const {
    if (i % kChunkElements != node * kClocks + clock) return 0;
    if (case_.has_quorum()) return -kMarkOfQuorum * kBatch;
    const bool by_node = absl::StrContains(case_.job, "async");
    return -static_cast<float>(by_node ? kBatch : kBatch * record_.view().nodes_size());
  }

  const Case& case_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  std::map<uint64_t, std::map<uint32_t, ChunkImage>> images_;  // by clock and chunk
  std::vector<std::unique_ptr<JobShard>> shards_;
  std::vector<std::unique_ptr<worker::TrainingNode>> nodes_;
  int events_ = 0;
};

class Resume : public ::testing::TestWithParam<Case> {};

TEST_P(Resume, AJobStoppedAnywhereEndsAsAnUndisturbedOneDoes) {
  constexpr uint32_t kSeeds = 120;
  uint32_t resumed = 0, apart = 0;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const uint32_t nodes = seed % 3 == 0 ? 4 : 2, shards = 1 + seed % 3;
    Cluster undisturbed(GetParam(), seed, nodes, shards, nullptr);
    ASSERT_TRUE(undisturbed.Run(kEventsMax));
    transport::SimRandom random(seed);
    Cluster stopped(GetParam(), seed, nodes, shards, nullptr);
    ASSERT_FALSE(stopped.Run(static_cast<int>(random.Below(undisturbed.events()))));
    const Checkpoint checkpoint = stopped.NewestCheckpoint();
    if (checkpoint.empty()) continue;
    ++resumed;

    Cluster rest(GetParam(), seed + kSeeds, nodes, 1 + (seed + 1) % 3, &checkpoint);
    ASSERT_TRUE(rest.Run(kEventsMax));
    for (uint32_t n = 0; n < nodes; ++n) {
      uint64_t least = UINT64_MAX, most = 0;
      for (const ChunkImage& image : checkpoint) {
        const uint64_t applied = image.applied.empty() ? image.clock : image.applied[n];
        least = std::min(least, applied);
        most = std::max(most, applied);
      }
      if (least < most) ++apart;
      EXPECT_EQ(rest.node(n).first_clock(), least);
      EXPECT_EQ(rest.node(n).landed(), std::vector<uint64_t>(kChunks, kClocks));
      if (!GetParam().has_ledger) {
        EXPECT_EQ(rest.node(n).weights(), undisturbed.node(n).weights());
        continue;
      }
      for (uint64_t i = 0; i < kChunks * kChunkElements; ++i) {
        const float found = rest.node(n).weights()[i];
        const bool is_right =
            i % kChunkElements < nodes * kClocks ? GetParam().CountsOnce(found) : found == 0;
        ASSERT_TRUE(is_right) << found << " in chunk " << i / kChunkElements << " node "
                              << i % kChunkElements / kClocks << " clock "
                              << i % kChunkElements % kClocks;
      }
    }
    ASSERT_FALSE(HasFailure());
  }
  // With a quorum, checkpoints come with the slowest node's steps; many jobs are stopped before.
  EXPECT_GT(resumed, GetParam().has_quorum() ? kSeeds / 12 : kSeeds / 3);
  const bool may_differ = absl::StrContains(GetParam().job, "async") ||
                          absl::StrContains(GetParam().job, "ON_ARRIVAL") ||
                          GetParam().has_quorum();
  EXPECT_EQ(apart > 0, may_differ) << "chunks of a node that go on at different clocks";
}

constexpr char kAdamW[] = "optimizer { adamw {} } schedule { base_lr: 0.05 } ";
constexpr char kLedger[] = "optimizer { sgd {} } schedule { base_lr: 1 } ";

std::vector<Case> Cases() {
  const auto bits = [](const std::string& name, const std::string& more) {
    return Case{name, kAdamW + more};
  };
  const auto ledger = [](const std::string& name, const std::string& more) {
    return Case{name, kLedger + more, /*has_ledger=*/true};
  };
  return {
      bits("Sync", "consistency { sync {} }"),
      bits("LazyWithoutStaleness", "consistency { lazy { staleness: 0 } }"),
      bits("SyncWithEncodedAnswers", "consistency { sync {} } pull { codec: INT8 }"),
      ledger("SyncLedger", "consistency { sync {} }"),
      ledger("Lazy", "consistency { lazy { staleness: 2 } }"),
      ledger("LazyOnArrival", "consistency { lazy { staleness: 2 apply: ON_ARRIVAL } }"),
      ledger("Async", "consistency { async {} }"),
      ledger("AsyncWithDelayCompensation",
             "consistency { async { delay_compensation { lambda: 0.04 adaptive: true } } }"),
      ledger("AsyncWithEncodedAnswers", "consistency { async {} } pull { codec: FP16 }"),
      Case{"LazyClipped",
           "optimizer { sgd {} clip_norm: 1e9 } schedule { base_lr: 1 } "
           "consistency { lazy { staleness: 2 } }",
           /*has_ledger=*/true},
      ledger("Quorum", "consistency { lazy { quorum { nodes: 1 grace_ms: 1 } } }"),
      ledger("SeveralConnections", "consistency { async {} } connections: 2"),
  };
}

INSTANTIATE_TEST_SUITE_P(Jobs, Resume, ::testing::ValuesIn(Cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace strata::sim
