// The model of time against what can be worked out on paper.
#include <algorithm>
#include <string>

#include "compare/virtual_time/link_medium.h"
#include "compare/virtual_time/virtual_fixture.h"
#include "gtest/gtest.h"

namespace strata::compare {
namespace {

// Nodes and servers on links of 100 Mbit/s that compute next to nothing.
std::string LinksOf(int nodes, int servers) {
  std::string text = absl::StrCat("nodes { count: ", nodes,
                                  " compute { constant_ms: 0.001 } link { gbit_per_s: 0.1 } "
                                  "aggregation_gb_per_s: 1000 }");
  if (servers > 0) {
    absl::StrAppend(&text, " servers { count: ", servers, " link { gbit_per_s: 0.1 } }");
  }
  return text;
}

// Of one more step, once all is under way.
double StepSeconds(const std::string& mode, uint32_t ranks, const ClusterFile& cluster,
                   const std::vector<std::string>& more = {}) {
  const double short_s = RunVirtually(MakePlan(mode, ranks, 6, more), cluster).record.trained_s();
  const double long_s = RunVirtually(MakePlan(mode, ranks, 16, more), cluster).record.trained_s();
  return (long_s - short_s) / 10;
}

// Of the model of MakePlan.
uint64_t ModelElements() {
  return RunVirtually(MakePlan("sync", 1, 1), ParseTestCluster(LinksOf(1, 1))).weights.size();
}

// Seconds that the model takes on such a link, once, cut into chunks of 1,024 weights.
double ModelSeconds() {
  const uint64_t elements = ModelElements();
  const double header = WireBytes(wire::Frame());
  const double chunks = (elements + 1023) / 1024;
  return (elements * sizeof(float) * 1514.0 / 1448 + chunks * header) / (0.1e9 / 8);
}

// max(M / B, n M / (k B)), and 1 / (1 + a few chunks / M) for its pipeline to fill.
TEST(VirtualTimes, SyncWithServersComesCloseToTheBoundOfItsLinks) {
  for (const auto& [nodes, servers] : {std::pair(2, 2), {4, 4}, {4, 2}, {2, 1}, {8, 2}}) {
    const double step = StepSeconds("sync", nodes, ParseTestCluster(LinksOf(nodes, servers)));
    const double bound = ModelSeconds() * std::max(1.0, static_cast<double>(nodes) / servers);
    EXPECT_GT(step, bound) << nodes << " nodes, " << servers << " servers";
    EXPECT_LT(step, 1.08 * bound) << nodes << " nodes, " << servers << " servers";
  }
}

// 2 (n - 1) / n M / B.
TEST(VirtualTimes, ARingComesCloseToTheBoundOfItsLinks) {
  for (const int nodes : {2, 4}) {
    const double step = StepSeconds("ring", nodes, ParseTestCluster(LinksOf(nodes, 0)),
                                    {"all_reduce.algorithm=RING"});
    const double bound = ModelSeconds() * 2 * (nodes - 1) / nodes;
    EXPECT_GT(step, bound) << nodes;
    EXPECT_LT(step, 1.15 * bound) << nodes;
  }
}

// Nothing but computation: steps take what ranks do.
TEST(VirtualTimes, WithQuickLinksStepsTakeWhatTheSlowestRankComputes) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 2 compute { constant_ms: 20 } link { gbit_per_s: 1000 } } "
      "nodes { compute { constant_ms: 20 slow: 4 } link { gbit_per_s: 1000 } } "
      "servers { link { gbit_per_s: 1000 } }");
  const VirtualOutcome sync = RunVirtually(MakePlan("sync", 3, 10), cluster);
  EXPECT_NEAR(sync.record.trained_s(), 10 * 0.080, 0.010);
  // Two of three ranks wait for 60 of 80 ms.
  EXPECT_NEAR(sync.record.waiting_share(), 2 * 0.75 / 3, 0.05);
}

TEST(VirtualTimes, AStragglerSetsThePaceInSyncButNotInAsync) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 3 compute { constant_ms: 20 } link { gbit_per_s: 1000 } } "
      "servers { link { gbit_per_s: 1000 } }");
  const std::vector<std::string> slow = {"debug.delays={node: 2 slow: 4}"};
  const proto::RunRecord sync = RunVirtually(MakePlan("sync", 3, 12, slow), cluster).record;
  const proto::RunRecord async = RunVirtually(MakePlan("async", 3, 12, slow), cluster).record;
  // Its first step has no backward pass before it. Its own steps take as long in both, but half of
  // all samples are through long before.
  EXPECT_NEAR(sync.trained_s(), 12 * 0.080 - 0.040, 0.005);
  EXPECT_NEAR(async.trained_s(), 12 * 0.080 - 0.040, 0.005);
  const auto half_at = [](const proto::RunRecord& record) {
    for (const proto::Window& window : record.windows()) {
      if (2 * window.samples() >= record.samples()) return window.trained_s();
    }
    return 0.0;
  };
  EXPECT_NEAR(half_at(sync), 6 * 0.080 - 0.040, 0.005);
  EXPECT_LT(half_at(async), 9 * 0.020);
  EXPECT_GT(sync.waiting_share(), 0.4);
  EXPECT_LT(async.waiting_share(), 0.05);
}

// Nobody waits for a straggler that a quorum does without, but for as long as the grace: once, as
// there is one chunk.
TEST(VirtualTimes, AQuorumClosesWithoutTheStragglerAndAfterItsGrace) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 3 compute { constant_ms: 20 } link { gbit_per_s: 1000 } } "
      "servers { link { gbit_per_s: 1000 } }");
  const auto half_at = [&](const std::string& grace) {
    const auto plan = MakePlan("quorum(2)", 3, 12,
                               {"debug.delays={node: 2 slow: 6}", "chunk_elements=1048576",
                                "consistency.lazy.quorum.grace_ms=" + grace});
    const proto::RunRecord record = RunVirtually(plan, cluster).record;
    EXPECT_EQ(record.failure(), "");
    for (const proto::Window& window : record.windows()) {
      if (2 * window.samples() >= record.samples()) return window.trained_s();
    }
    return 0.0;
  };
  // 18 of 36 steps: 8 of the two quick ranks, 2 of the slow one.
  EXPECT_NEAR(half_at("0"), 8.5 * 0.020, 0.030);
  EXPECT_NEAR(half_at("10"), 8.5 * 0.030, 0.035);
}

TEST(VirtualTimes, DelaysOfTheJobAreTimeInWhichARankStandsStill) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 2 compute { constant_ms: 10 } link { gbit_per_s: 1000 } } "
      "servers { link { gbit_per_s: 1000 } }");
  const auto plan = MakePlan("sync", 2, 10, {"debug.delays={node: 1 delay_ms: 30}"});
  EXPECT_NEAR(RunVirtually(plan, cluster).record.trained_s(), 10 * 0.040, 0.010);
}

// A step takes the longer of computation and exchange where they go on at once, and their sum where
// they do not: E5 of double buffering.
TEST(VirtualTimes, DoubleBufferingHidesTheExchange) {
  const std::string links = " link { gbit_per_s: 0.1 } ";
  const ClusterFile cluster =
      ParseTestCluster("nodes { count: 2 compute { constant_ms: 40 }" + links +
                       "aggregation_gb_per_s: 1000 } servers { count: 2" + links + "}");
  const double longer = std::max(0.040, ModelSeconds());
  EXPECT_NEAR(StepSeconds("delay1", 2, cluster), longer, 0.05 * longer);
  EXPECT_GT(StepSeconds("sync", 2, cluster), 1.3 * longer);
}

// What shards take for frames adds up where it is the bottleneck.
TEST(VirtualTimes, AShardTakesItsTimeForEveryFrame) {
  std::string text = LinksOf(2, 1);
  text.insert(text.rfind('}'), " cpu_us_per_frame: 1000 ");
  const double frames = 2.0 * ((ModelElements() + 1023) / 1024);
  EXPECT_NEAR(StepSeconds("sync", 2, ParseTestCluster(text)), frames * 0.001,
              0.05 * frames * 0.001);
}

}  // namespace
}  // namespace strata::compare
