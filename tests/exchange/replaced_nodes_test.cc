// Nodes and shards over a network that loses and repeats frames and cuts connections, from a seed.
// Nodes die at any point of a job, and other processes replace them. Each push must count exactly
// once, and in sync the weights must have the bits of a run without deaths.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/consistency.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"
#include "server/testing/sim_copy.h"
#include "worker/testing/training_node.h"

namespace strata {
namespace {

using server::ShardAction;
using server::ShardCopy;
using server::SimCopy;
using worker::TrainingNode;

constexpr uint32_t kReplacedNodesNodes = 3, kChunks = 4, kShards = 2;
constexpr uint64_t kReplacedNodesClocks = 4;
constexpr uint32_t kReplacedNodesElements =
    kReplacedNodesNodes * kReplacedNodesClocks;  // of a chunk: one for each push
constexpr uint32_t kAllElements = kReplacedNodesElements * kChunks;
constexpr uint64_t kEventsMax = 400'000;

struct ReplacedNodesOptions {
  std::string job = "optimizer { sgd {} } consistency { sync {} }";
  bool counts = false;  // pushes, in place of training
  bool takes_first_weights = false;
  bool has_backups = false;
  uint32_t connections = 1;
  bool lives_on = false;  // a node taken for dead continues until it is told
};
void PrintTo(const ReplacedNodesOptions& options, std::ostream* out) {
  *out << options.job << (options.takes_first_weights ? ", first weights of node 0" : "")
       << (options.has_backups ? ", second copies" : "") << (options.lives_on ? ", alive" : "");
}

// Something that dies after this many events.
struct Death {
  uint64_t after = 0;
  uint32_t number = 0;
};

class ReplacedNodesCluster {
 public:
  ReplacedNodesCluster(const ReplacedNodesOptions& options, uint32_t seed)
      : options_(options), network_(seed) {
    server::JobOptions job;
    job.ranks.assign(kReplacedNodesNodes, 1);
    job.elements = kAllElements;
    job.chunk_elements = kReplacedNodesElements;
    job.shards = kShards;
    job.batch_per_rank = 1;
    job.job_text = absl::StrCat(options.job, " schedule { base_lr: ", options.counts ? 1 : 0.1,
                                " } replace { per_hour: 9 } connections: ", options.connections);
    record_ = server::MakeRecord(job);
    record_.set_takes_first_weights(options.takes_first_weights);
    proto::Placement* const placement = record_.mutable_placement();
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      placement->set_shard_endpoints(static_cast<int>(shard), absl::StrCat("first", shard));
      placement->add_shard_generations(2);
      if (options.has_backups) placement->add_backup_endpoints(absl::StrCat("second", shard));
    }
    for (uint32_t shard = 0; shard < kShards; ++shard) Install(shard);
    network_.set_faults({.drop = seed % 4 == 1 ? 0.02 : 0,
                         .duplicate = 0.1,
                         .break_both = seed % 2 == 1 ? 0.005 : 0});
    incarnations_.assign(kReplacedNodesNodes, 0);
    nodes_.assign(kReplacedNodesNodes, nullptr);
    for (uint32_t node = 0; node < kReplacedNodesNodes; ++node) Begin(node);
    Tick();
  }

  // Runs until every node has the last weights. `nodes` and `primaries` die; both lists are in
  // order.
  void Run(std::vector<Death> nodes = {}, std::vector<Death> primaries = {}) {
    for (; !Done(); ++events_) {
      ASSERT_LT(events_, kEventsMax) << "no progress: " << Describe();
      while (!nodes.empty() && nodes.back().after <= events_) {
        Kill(nodes.back().number);
        nodes.pop_back();
      }
      while (!primaries.empty() && primaries.back().after <= events_) {
        KillPrimary(primaries.back().number);
        primaries.pop_back();
      }
      ASSERT_TRUE(network_.RunOne());
      for (const TrainingNode* node : nodes_) {
        ASSERT_TRUE(node->status().ok() || !node->alive()) << node->status();
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << Describe();
    }
  }

  // The final weights, which are the same on all nodes.
  std::vector<float> Final() const {
    for (const TrainingNode* node : nodes_) EXPECT_EQ(node->weights(), nodes_[0]->weights());
    return nodes_[0]->weights();
  }
  uint64_t events() const { return events_; }
  // Pushes of a chunk by each node.
  uint64_t rounds() const {
    const uint64_t steps = StepsPerClock(record_.job());
    return (kReplacedNodesClocks + steps - 1) / steps;
  }
  // The first step of the node's newest process.
  uint64_t first_step(uint32_t node) const { return nodes_[node]->first_clock(); }
  // Number of processes that replaced another one during the job.
  int midst() const {
    int midst = 0;
    for (const auto& node : all_) midst += node->first_clock() > 0 ? 1 : 0;
    return midst;
  }
  // Number of pushes accepted by the shards.
  uint64_t pushes() {
    uint64_t pushes = 0;
    for (SimCopy* copy : primaries_) {
      pushes += copy->core().Counters().at(JobId(record_.job_id())).pushes;
    }
    return pushes;
  }

 private:
  void Install(uint32_t shard) {
    copies_.push_back(
        std::make_unique<SimCopy>(&network_, absl::StrCat("first", shard), 32 + shard));
    primaries_.push_back(copies_.back().get());
    EXPECT_TRUE(primaries_[shard]->core().Install(record_, ShardId(shard)).ok());
    if (!options_.has_backups) return;
    copies_.push_back(
        std::make_unique<SimCopy>(&network_, absl::StrCat("second", shard), 40 + shard));
    backups_.push_back(copies_.back().get());
    EXPECT_TRUE(
        backups_[shard]->core().Install(record_, ShardId(shard), {}, ShardCopy::kBackup).ok());
  }

  void Begin(uint32_t node) {
    TrainingNode::Options options;
    options.core.record = record_;
    options.core.node = NodeId(node);
    options.core.incarnation = ++incarnations_[node];
    options.core.timing.give_up_after = absl::Hours(1);  // HELLO may be lost repeatedly
    options.name = absl::StrCat("node", node, ".", incarnations_[node]);
    options.addresses_are_names = true;
    options.clocks = kReplacedNodesClocks;
    options.in_step = true;
    options.samples = 1;
    options.first_weight = [this, node](uint64_t i) {
      const float other = options_.takes_first_weights && node > 0 ? 9.0f : 0.0f;
      return options_.counts ? 0.0f : 0.25f + 0.01f * static_cast<float>(i % 13) + other;
    };
    const size_t number = all_.size();
    options.gradient = [this, node, number](uint64_t clock, uint64_t i) {
      return options_.counts ? Count(node, clock, i) : Gradient(*all_[number], node, clock, i);
    };
    all_.push_back(std::make_unique<TrainingNode>(&network_, std::move(options)));
    nodes_[node] = all_.back().get();
    all_.back()->Start();
  }

  // The divisor of the clock: samples of all nodes, or of the node itself if pushes are applied on
  // arrival.
  float Count(uint32_t node, uint64_t clock, uint64_t i) const {
    if (i % kReplacedNodesElements != node * kReplacedNodesClocks + clock) return 0;
    const bool on_arrival = options_.job.find("async") != std::string::npos;
    return on_arrival ? -1.0f : -1.0f * kReplacedNodesNodes;
  }

  // Depends on all weights that the step began with.
  static float Gradient(const TrainingNode& of, uint32_t node, uint64_t clock, uint64_t i) {
    const std::vector<float>& weights = of.step_weights();
    return 0.5f * weights[i] - 0.3f * weights[(i + 17) % kAllElements] +
           0.01f * static_cast<float>((i * 31 + node * 17 + clock * 7) % 97);
  }

  void Kill(uint32_t node) {
    if (!nodes_[node]->alive() || nodes_[node]->is_over()) return;
    if (!options_.lives_on) nodes_[node]->Kill();
    Later([this, node, killed = nodes_[node]] {
      // It may have finished meanwhile, or have been replaced.
      const bool is_left = killed->alive() && killed->is_over() && killed->status().ok();
      if (nodes_[node] == killed && !is_left) Begin(node);
    });
  }

  void KillPrimary(uint32_t shard) {
    if (primaries_[shard] == backups_[shard]) return;
    primaries_[shard]->Die();
    primaries_[shard] = backups_[shard];
    Later([this, shard] {
      backups_[shard]->Do([&](std::vector<ShardAction>* actions) {
        EXPECT_TRUE(backups_[shard]
                        ->core()
                        .Promote(JobId(record_.job_id()), ShardId(shard), 3, actions)
                        .ok());
      });
      const std::string address = absl::StrCat("second", shard);
      record_.mutable_placement()->set_shard_endpoints(static_cast<int>(shard), address);
      record_.mutable_placement()->set_shard_generations(static_cast<int>(shard), 3);
      for (const auto& node : all_) {
        Later([&node = *node, shard, address] { node.OnShardMoved({ShardId(shard), address, 3}); });
      }
    });
  }

  void Later(std::function<void()> what) {
    network_.After(network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(30)),
                   std::move(what));
  }
  void Tick() {
    for (const auto& copy : copies_) copy->OnTime();
    network_.After(absl::Milliseconds(2), [this] { Tick(); });
  }

  bool Done() const {
    for (const TrainingNode* node : nodes_) {
      if (!node->alive() || !node->is_over()) return false;
    }
    return true;
  }
  std::string Describe() const {
    std::string text = absl::StrCat(all_.size() - kReplacedNodesNodes, " replaced;");
    for (const TrainingNode* node : nodes_) {
      absl::StrAppend(&text, " from ", node->first_clock(), ":");
      for (const uint64_t landed : node->landed()) absl::StrAppend(&text, " ", landed);
    }
    return text;
  }

  const ReplacedNodesOptions options_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  std::vector<std::unique_ptr<SimCopy>> copies_;
  std::vector<SimCopy*> primaries_, backups_;  // by shard
  std::vector<std::unique_ptr<TrainingNode>> all_;
  std::vector<TrainingNode*> nodes_;  // the newest of each
  std::vector<uint32_t> incarnations_;
  uint64_t events_ = 0;
};

// Returns `count` deaths of one of `kinds` within this many events, the last one first.
std::vector<Death> Deaths(uint32_t seed, size_t count, uint64_t events, uint32_t kinds) {
  std::mt19937 random(seed);
  std::vector<Death> deaths;
  for (size_t i = 0; i < count; ++i) {
    deaths.push_back({random() % events, static_cast<uint32_t>(random() % kinds)});
  }
  std::sort(deaths.begin(), deaths.end(), [](auto& a, auto& b) { return a.after > b.after; });
  return deaths;
}

uint64_t EventsOf(const ReplacedNodesOptions& options, uint32_t seed) {
  ReplacedNodesCluster undisturbed(options, seed);
  undisturbed.Run();
  return undisturbed.events();
}

class SyncReplacedNodes : public testing::TestWithParam<ReplacedNodesOptions> {};

TEST_P(SyncReplacedNodes, TheWeightsHaveTheBitsOfAnUndisturbedRun) {
  ReplacedNodesCluster undisturbed(GetParam(), 0);
  undisturbed.Run();
  ASSERT_FALSE(HasFailure());
  const std::vector<float> expected = undisturbed.Final();
  int midst = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const uint64_t events = EventsOf(GetParam(), seed);
    ReplacedNodesCluster cluster(GetParam(), seed);
    const bool also_primaries = GetParam().has_backups && seed % 4 != 0;
    cluster.Run(Deaths(seed, 1 + seed % 3, events, kReplacedNodesNodes),
                also_primaries ? Deaths(seed + 1000, 1, events, kShards) : std::vector<Death>());
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(cluster.Final(), expected);
    midst += cluster.midst();
  }
  EXPECT_GT(midst, 100);
}

const char kReplacedNodesMomentum[] =
    "optimizer { momentum_sgd { momentum: 0.9 } } consistency { sync {} }";
const char kReplacedNodesAdamw[] = "optimizer { adamw {} } consistency { lazy { staleness: 0 } }";
// Nodes keep no state between rounds; the second case's last round is shorter.
const char kLocal[] = "optimizer { sgd {} } consistency { preset: \"diloco(2)\" }";
const char kShorter[] = "optimizer { sgd {} } consistency { lazy { local_steps: 3 } }";

INSTANTIATE_TEST_SUITE_P(
    Jobs, SyncReplacedNodes,
    testing::Values(
        ReplacedNodesOptions{.job = kReplacedNodesMomentum},
        ReplacedNodesOptions{.job = kReplacedNodesAdamw, .connections = 2},
        ReplacedNodesOptions{.job = kReplacedNodesMomentum, .takes_first_weights = true},
        ReplacedNodesOptions{.job = absl::StrCat(kReplacedNodesMomentum, " pull { codec: FP16 }")},
        ReplacedNodesOptions{.job = kReplacedNodesMomentum, .lives_on = true},
        ReplacedNodesOptions{.job = kReplacedNodesMomentum, .has_backups = true},
        ReplacedNodesOptions{.job = kLocal},
        ReplacedNodesOptions{.job = kShorter, .has_backups = true, .lives_on = true},
        ReplacedNodesOptions{.job = absl::StrCat(kLocal, " pull { codec: FP16 }")},
        ReplacedNodesOptions{.job = kReplacedNodesAdamw, .has_backups = true, .lives_on = true},
        ReplacedNodesOptions{.job = absl::StrCat(kReplacedNodesMomentum, " pull { codec: INT8 }"),
                             .has_backups = true}));

class CountedReplacedNodes : public testing::TestWithParam<std::string> {};

TEST_P(CountedReplacedNodes, EachPushCountsOnce) {
  const bool is_quorum = GetParam().find("quorum") != std::string::npos;
  int midst = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const ReplacedNodesOptions options{.job = absl::StrCat("optimizer { sgd {} } ", GetParam()),
                                       .counts = true,
                                       .takes_first_weights = seed % 3 == 0};
    ReplacedNodesCluster cluster(options, seed);
    cluster.Run(Deaths(seed, 1 + seed % 2, EventsOf(options, seed), kReplacedNodesNodes));
    ASSERT_FALSE(HasFailure());
    for (const float weight : cluster.Final()) {
      // A clock of a quorum may have any number of samples from one on, including late ones.
      const float samples = kReplacedNodesNodes / weight;
      const bool once =
          weight == 1 || (is_quorum && samples >= 1 && samples == std::round(samples));
      ASSERT_TRUE(once) << weight;
    }
    ASSERT_EQ(cluster.pushes(), kReplacedNodesNodes * kChunks * cluster.rounds());
    midst += cluster.midst();
  }
  EXPECT_GT(midst, 100);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, CountedReplacedNodes,
    testing::Values("consistency { sync {} }", "consistency { lazy { staleness: 2 } }",
                    "consistency { lazy { staleness: 2 apply: ON_ARRIVAL } }",
                    "consistency { lazy { quorum { nodes: 2 } } }", "consistency { async {} }",
                    "consistency { async { delay_compensation { lambda: 0 } } }",
                    "consistency { async {} } pull { codec: FP16 }",
                    "consistency { lazy { local_steps: 2 } }",
                    "consistency { lazy { local_steps: 3 } }"));

// Returns how far a node's sum of a step moves its element, with momentum of 0.5. Another process
// begins at step `lost`; servers have its predecessor's pushes until `seen`.
float Moves(uint64_t step, uint64_t lost, uint64_t seen) {
  const uint64_t end = step < lost ? std::min(seen, kReplacedNodesClocks) : kReplacedNodesClocks;
  return 2 - std::ldexp(2.0f, static_cast<int>(step) - static_cast<int>(end));
}

TEST(ReplacedNodes, OfLocalStepsTheMomentumOfANodeThatDiesIsLostAndNothingElse) {
  for (const uint64_t steps : {1, 2}) {
    const ReplacedNodesOptions options{
        .job = absl::StrCat("optimizer { momentum_sgd { momentum: 0.5 } } consistency { lazy { "
                            "local_steps: ",
                            steps, " } }"),
        .counts = true};
    int lost = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(absl::StrCat(steps, " steps, seed ", seed));
      ReplacedNodesCluster cluster(options, seed);
      cluster.Run(Deaths(seed, 1, EventsOf(options, seed), kReplacedNodesNodes));
      ASSERT_FALSE(HasFailure());
      const std::vector<float> weights = cluster.Final();
      for (uint32_t i = 0; i < kReplacedNodesNodes * kChunks; ++i) {
        const uint64_t begin = cluster.first_step(i % kReplacedNodesNodes);
        // The push of the round that counts may come from either process.
        const auto is_pushed_by = [&](uint64_t seen) {
          for (uint64_t step = 0; step < kReplacedNodesClocks; ++step) {
            const float weight = weights[i / kReplacedNodesNodes * kReplacedNodesElements +
                                         i % kReplacedNodesNodes * kReplacedNodesClocks + step];
            if (std::abs(weight - Moves(step, begin, seen)) > 1e-5f) return false;
          }
          return true;
        };
        ASSERT_TRUE(is_pushed_by(begin) || is_pushed_by(begin + steps))
            << "node " << i % kReplacedNodesNodes;
        lost += Moves(0, begin, begin) < Moves(0, 0, 0) && is_pushed_by(begin) ? 1 : 0;
      }
    }
    EXPECT_GT(lost, 50);
  }
}

// Only the residual of the earlier process is lost.
TEST(ReplacedNodes, ANodeWithALossyCodecGoesOnWithNothingLeftOut) {
  const ReplacedNodesOptions options{
      .job = absl::StrCat(kReplacedNodesMomentum, " push { codec: TOP_K density: 0.3 }")};
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ReplacedNodesCluster cluster(options, seed);
    cluster.Run(Deaths(seed, 2, EventsOf(options, seed), kReplacedNodesNodes));
    ASSERT_FALSE(HasFailure());
    cluster.Final();
    EXPECT_EQ(cluster.pushes(), kReplacedNodesNodes * kChunks * kReplacedNodesClocks);
  }
}

}  // namespace
}  // namespace strata
