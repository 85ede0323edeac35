// Shards move from server to server while the nodes train, and servers die during moves. Each push
// must count exactly once. In sync, with double buffering and with local steps in lockstep, the
// weights must have the bits of a run without moves.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/counted.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"
#include "tests/exchange/moving_cluster.h"

namespace strata::tests {
namespace {

using Options = MovingCluster::Options;
using Course = MovingCluster::Course;

const char kMomentum[] = "optimizer { momentum_sgd { momentum: 0.9 } } consistency { sync {} }";
const char kAdamw[] = "optimizer { adamw {} } consistency { lazy { staleness: 0 } }";
const char kDelay1[] =
    "optimizer { momentum_sgd { momentum: 0.9 } } consistency { preset: 'delay1' }";
const char kLocal[] = "optimizer { adamw {} } consistency { preset: 'local(3)' }";
constexpr uint64_t kLocalClocks = 3 * MovingCluster::kClocks;  // a round has three
constexpr uint32_t kSeeds = 200;

// A shard without a second copy waits for one forever here.
bool MayDie(const Options& options) {
  return options.has_backups && options.job.find("WAIT") == std::string::npos;
}
Course CourseOf(const Options& options, uint32_t seed) {
  return MayDie(options) && seed % 2 == 1 ? Course::kMovesAndDies : Course::kMoves;
}

class SyncMovedShards : public testing::TestWithParam<Options> {};

TEST_P(SyncMovedShards, TheWeightsHaveTheBitsOfAnUndisturbedRun) {
  MovingCluster undisturbed(GetParam(), Course::kStays, 0);
  undisturbed.Run();
  ASSERT_FALSE(HasFailure());
  const std::vector<float> expected = undisturbed.Final();
  int moves = 0, deaths = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MovingCluster cluster(GetParam(), CourseOf(GetParam(), seed), seed);
    cluster.Run();
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(cluster.Final(), expected);
    moves += cluster.moves();
    deaths += cluster.deaths();
  }
  EXPECT_GT(moves, static_cast<int>(kSeeds * MovingCluster::kShards * 2))
      << "each shard, several times";
  EXPECT_GE(deaths, MayDie(GetParam()) ? static_cast<int>(kSeeds / 4) : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, SyncMovedShards,
    testing::Values(
        Options{.job = kMomentum}, Options{.job = kMomentum, .has_backups = true},
        Options{.job = absl::StrCat(kAdamw, " connections: 2")},
        Options{.job = kAdamw, .has_backups = true},
        Options{.job = absl::StrCat(kMomentum, " push { codec: INT8 }"), .has_backups = true},
        Options{.job = absl::StrCat(kMomentum, " pull { codec: FP16 }")},
        Options{.job = absl::StrCat(kMomentum, " while_unprotected: WAIT"), .has_backups = true},
        Options{.job = kDelay1}, Options{.job = kDelay1, .has_backups = true},
        Options{.job = kLocal, .clocks = kLocalClocks},
        Options{.job = kLocal, .has_backups = true, .clocks = kLocalClocks},
        Options{.job = "optimizer { sgd {} } consistency { preset: 'diloco(3)' }",
                .has_backups = true,
                .clocks = kLocalClocks}));

class CountedMovedShards : public testing::TestWithParam<Options> {};

TEST_P(CountedMovedShards, EachPushCountsOnce) {
  int moves = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MovingCluster cluster(GetParam(), CourseOf(GetParam(), seed), seed);
    cluster.Run();
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(cluster.Final(), std::vector<float>(MovingCluster::kAllElements, 1.0f));
    moves += cluster.moves();
  }
  EXPECT_GT(moves, static_cast<int>(kSeeds * MovingCluster::kShards));
}

std::vector<Options> Counted() {
  std::vector<Options> all;
  for (const char* mode :
       {"sync {}", "lazy { staleness: 2 }", "lazy { staleness: 2 apply: ON_ARRIVAL }", "async {}",
        "async { delay_compensation { lambda: 0 } }"}) {
    for (const bool has_backups : {false, true}) {
      all.push_back({.job = absl::StrCat("optimizer { sgd {} } consistency { ", mode, " }"),
                     .counts = true,
                     .has_backups = has_backups});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Modes, CountedMovedShards, testing::ValuesIn(Counted()));

class QuorumMovedShards : public testing::TestWithParam<Options> {};

TEST_P(QuorumMovedShards, EachPushCountsOnceInTheMeanOfTheClockThatHasIt) {
  constexpr uint32_t kElements = MovingCluster::kElements;
  int moves = 0, deaths = 0;
  uint32_t in_small_clocks = 0;
  for (uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    MovingCluster cluster(GetParam(), CourseOf(GetParam(), seed), seed);
    cluster.Run();
    ASSERT_FALSE(HasFailure());
    const std::vector<float> weights = cluster.Final();
    for (uint32_t c = 0; c < MovingCluster::kChunks; ++c) {
      const auto chunk = absl::MakeConstSpan(weights).subspan(c * kElements, kElements);
      const auto pushes = server::PushesByClockSize(chunk, MovingCluster::kNodes);
      ASSERT_FALSE(HasFailure());
      for (const auto& [size, count] : pushes) {
        if (size < MovingCluster::kNodes) in_small_clocks += count;
      }
    }
    moves += cluster.moves();
    deaths += cluster.deaths();
  }
  EXPECT_GT(moves, static_cast<int>(kSeeds * MovingCluster::kShards));
  EXPECT_GE(deaths, MayDie(GetParam()) ? static_cast<int>(kSeeds / 4) : 0);
  EXPECT_GT(in_small_clocks, kSeeds) << "clocks close without waiting for all nodes";
}

std::vector<Options> Quorums() {
  std::vector<Options> all;
  for (const char* quorum : {"nodes: 2", "nodes: 2 grace_ms: 2"}) {
    for (const bool has_backups : {false, true}) {
      all.push_back({.job = absl::StrCat("optimizer { sgd {} } consistency { lazy { quorum { ",
                                         quorum, " } } }"),
                     .counts = true,
                     .has_backups = has_backups});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Graces, QuorumMovedShards, testing::ValuesIn(Quorums()));

}  // namespace
}  // namespace strata::tests
