// Jobs whose nodes come and go at random times; in some, shards also move from server to server. In
// sync the weights must have, at every clock, the bits of a plain sum over the nodes of the job at
// that clock; in other modes each push must count once.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/job/arena.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "numerics/update.h"
#include "numerics/weight_state.h"
#include "tests/exchange/elastic_cluster.h"

namespace strata::tests {

void PrintTo(const ElasticCluster::Options& options, std::ostream* out) {
  *out << options.job << (options.takes_first_weights ? ", first weights of node 0" : "")
       << (options.has_backups ? ", second copies" : "") << (options.nodes_die ? ", deaths" : "")
       << (options.shards_move ? ", moves" : "");
}

namespace {

using Options = ElasticCluster::Options;
using Floats = std::vector<float>;

constexpr uint32_t kElasticNodes = ElasticCluster::kNodes,
                   kElasticNodesElements = ElasticCluster::kElements;
constexpr uint64_t kClocks = ElasticCluster::kClocks;

Bytes ToBytes(const Floats& floats) {
  const auto shared = std::make_shared<Floats>(floats);
  return Bytes(shared, reinterpret_cast<const std::byte*>(shared->data()),
               shared->size() * sizeof(float));
}

// Sums of [begin, end); empty ones add nothing.
Floats TreeSum(const std::vector<Floats>& leaves, size_t begin, size_t end) {
  if (end - begin == 1) return leaves[begin];
  const size_t middle = begin + kernels::SumTreeSplit(end - begin);
  Floats left = TreeSum(leaves, begin, middle);
  const Floats right = TreeSum(leaves, middle, end);
  if (left.empty()) return right;
  for (size_t i = 0; i < right.size(); ++i) left[i] += right[i];
  return left;
}

// Weights at the start of each clock, and the final ones, with participants as in `views`.
std::vector<Floats> WeightsByClock(const proto::JobRecord& record, const Views& views) {
  const ChunkMap map(ElasticCluster::kAllElements, kElasticNodesElements);
  const numerics::UpdateRule rule =
      numerics::MakeUpdateRule(record.job(), record.samples_per_epoch());
  BufferPool pool;
  std::vector<std::unique_ptr<numerics::WeightState>> chunks;
  Floats weights;
  for (uint32_t i = 0; i < ElasticCluster::kAllElements; ++i) {
    weights.push_back(ElasticCluster::FirstWeight(i));
  }
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    const ChunkId id(c);
    chunks.push_back(
        std::make_unique<numerics::WeightState>(kernels::Cpu(), pool, rule, kElasticNodesElements,
                                                OptimizerRuns(record.layout(), map, id)));
    chunks[c]->Seed(ToBytes(Floats(weights.begin() + c * kElasticNodesElements,
                                   weights.begin() + (c + 1) * kElasticNodesElements)),
                    0);
  }
  std::vector<Floats> all = {weights};
  for (uint64_t clock = 0; clock < kClocks; ++clock) {
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      std::vector<Floats> leaves(kElasticNodes);
      for (const NodeId node : views.NodesAt(clock)) {
        for (uint32_t i = c * kElasticNodesElements; i < (c + 1) * kElasticNodesElements; ++i) {
          leaves[node.value()].push_back(
              ElasticCluster::Gradient(all.back(), node.value(), clock, i));
        }
      }
      const uint32_t samples = views.RanksAt(clock);
      chunks[c]->Apply(ToBytes(TreeSum(leaves, 0, kElasticNodes)),
                       static_cast<float>(1.0 / static_cast<double>(samples)), samples, {});
      std::copy_n(chunks[c]->weights().floats(), kElasticNodesElements,
                  weights.begin() + c * kElasticNodesElements);
    }
    all.push_back(weights);
  }
  return all;
}

class SyncElastic : public testing::TestWithParam<Options> {};

TEST_P(SyncElastic, TheWeightsAreAtEveryClockThoseOfTheNodesThatAreThere) {
  int changes = 0, joined = 0, given_up = 0, deaths = 0, filled = 0, moves = 0, while_filled = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ElasticCluster cluster(GetParam(), seed);
    cluster.Run();
    ASSERT_FALSE(HasFailure());
    const Views views = cluster.views();
    const std::vector<Floats> expected = WeightsByClock(cluster.record(), views);
    for (const ElasticCluster::Step& step : cluster.steps()) {
      ASSERT_EQ(step.weights, expected[step.clock])
          << "node " << step.node << " clock " << step.clock;
    }
    ASSERT_EQ(cluster.Final(), expected[kClocks]);
    for (const proto::ViewChange& change : views.changes()) {
      if (change.at_clock() >= kClocks) continue;
      ++changes;
      joined += change.joined_size();
    }
    given_up += cluster.given_up();
    deaths += cluster.deaths();
    filled += cluster.filled();
    moves += cluster.moves();
    while_filled += cluster.changed_while_filled();
  }
  EXPECT_GT(changes, 150);
  EXPECT_GT(joined, 100);
  EXPECT_GT(given_up, 20);
  if (GetParam().nodes_die || GetParam().has_backups) {
    EXPECT_GT(deaths, 200);
  }
  if (GetParam().has_backups) {
    EXPECT_GT(filled, 100);
  }
  if (GetParam().shards_move) {
    EXPECT_GT(moves, 300);
    EXPECT_GT(while_filled, 50) << "changes that came while a shard moved";
  }
}

const char kMomentum[] = "optimizer { momentum_sgd { momentum: 0.9 } } consistency { sync {} }";
const char kAdamw[] = "optimizer { adamw {} } consistency { lazy { staleness: 0 } }";

INSTANTIATE_TEST_SUITE_P(
    Jobs, SyncElastic,
    testing::Values(
        Options{.job = kMomentum}, Options{.job = kAdamw, .takes_first_weights = true},
        Options{.job = kMomentum, .nodes_die = true},
        Options{.job = kMomentum, .has_backups = true},
        Options{.job = kAdamw, .has_backups = true, .nodes_die = true},
        Options{.job = kMomentum, .shards_move = true},
        Options{.job = kMomentum, .has_backups = true, .shards_move = true},
        Options{.job = kAdamw, .has_backups = true, .nodes_die = true, .shards_move = true}));

class CountedElastic : public testing::TestWithParam<Options> {};

TEST_P(CountedElastic, EachPushCountsOnce) {
  const bool is_quorum = GetParam().job.find("quorum") != std::string::npos;
  int joined = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ElasticCluster cluster(GetParam(), seed);
    cluster.Run();
    ASSERT_FALSE(HasFailure());
    const Views views = cluster.views();
    const Floats weights = cluster.Final();
    for (uint32_t i = 0; i < weights.size(); ++i) {
      const uint32_t node = i % kElasticNodesElements / kClocks;
      const uint64_t clock = i % kClocks;
      const bool is_there = views.Has(NodeId(node), clock);
      // A clock of a quorum may have any number of samples from one on, including late ones.
      const float samples = static_cast<float>(views.RanksAt(clock)) / weights[i];
      const bool may_be = is_quorum && is_there && samples > 0.9f &&
                          std::abs(samples - std::round(samples)) < 0.001f;
      ASSERT_TRUE(may_be || weights[i] == (is_there ? 1 : 0))
          << "node " << node << " clock " << clock << ": " << weights[i];
    }
    const uint64_t pushes = views.RankStepsBefore(kClocks) * ElasticCluster::kChunks;
    if (!GetParam().has_backups) {
      ASSERT_EQ(cluster.pushes(), pushes);
    }
    for (const proto::ViewChange& change : views.changes()) {
      if (change.at_clock() < kClocks) joined += change.joined_size();
    }
  }
  EXPECT_GT(joined, 100);
}

Options Counting(const std::string& mode, bool has_backups = false) {
  return {.job = absl::StrCat("optimizer { sgd {} } ", mode),
          .counts = true,
          .has_backups = has_backups,
          .nodes_die = !has_backups};
}

INSTANTIATE_TEST_SUITE_P(
    Modes, CountedElastic,
    testing::Values(Counting("consistency { sync {} }"),
                    Counting("consistency { sync {} } pull { codec: FP16 }"),
                    Counting("consistency { lazy { staleness: 2 } }"),
                    Counting("consistency { lazy { staleness: 2 } }", /*has_backups=*/true),
                    Counting("consistency { lazy { staleness: 2 apply: ON_ARRIVAL } }"),
                    Counting("consistency { lazy { staleness: 2 apply: ON_ARRIVAL } }", true),
                    Counting("consistency { lazy { quorum { nodes: 2 } } }"),
                    Counting("consistency { async {} }"),
                    Counting("consistency { async {} } pull { codec: FP16 }", true),
                    Counting("consistency { async { delay_compensation { lambda: 0 } } }", true)));

}  // namespace
}  // namespace strata::tests
