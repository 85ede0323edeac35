#include "compare/virtual_time/virtual_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "compare/virtual_time/compute_time.h"
#include "compare/virtual_time/link_medium.h"
#include "compare/virtual_time/virtual_fixture.h"
#include "gtest/gtest.h"

// Every run is the same each time, and every mode ends.

namespace strata::compare {

namespace {

constexpr char kCluster[] = R"(
  nodes {
    name: "a" count: 3 ranks: 2
    compute { log_normal { median_ms: 3 sigma: 0.3 } }
    link { gbit_per_s: 1 latency_us: 30 jitter_us: 20 } site: "east"
  }
  nodes {
    name: "b" ranks: 2
    compute { normal { mean_ms: 5 deviation_ms: 1 } slow: 2 }
    link { gbit_per_s: 1 latency_us: 30 } site: "west"
  }
  servers { count: 2 shards: 2 link { gbit_per_s: 1 latency_us: 30 } site: "east"
            cpu_ns_per_byte: 0.5 cpu_us_per_frame: 10 }
  site_links { sites: ["east", "west"] gbit_per_s: 0.5 latency_ms: 1 jitter_ms: 0.1 })";

std::vector<std::string> AllModes() {
  return {"sync",      "lazy",  "lazy:ssp(3)",  "lazy:local(3)", "lazy:diloco(3)", "delay1",
          "quorum(3)", "async", "async_damped", "async_dc",      "easgd",          "ring"};
}

TEST(VirtualRun, EveryModeEndsWithAllSamplesUsedAndMeasured) {
  const ClusterFile cluster = ParseTestCluster(kCluster);
  for (const std::string& mode : AllModes()) {
    const VirtualOutcome outcome = RunVirtually(MakePlan(mode, 8, 8), cluster);
    const proto::RunRecord& record = outcome.record;
    EXPECT_EQ(record.failure(), "") << mode;
    EXPECT_EQ(record.samples(), 8u * 8 * 4) << mode;
    EXPECT_EQ(record.steps(), 8u) << mode;
    EXPECT_GT(record.trained_s(), 8 * 0.003) << mode;
    EXPECT_GT(record.waiting_share(), 0) << mode;
    EXPECT_LT(record.waiting_share(), 1) << mode;
    EXPECT_GT(record.bytes_pushed(), 0u) << mode;
    EXPECT_GT(record.bytes_answered(), 0u) << mode;
    EXPECT_EQ(record.windows_size(), 4) << mode;
    EXPECT_EQ(record.windows(3).samples(), record.samples()) << mode;
    EXPECT_DOUBLE_EQ(record.windows(3).trained_s(), record.trained_s()) << mode;
    ASSERT_EQ(record.measurements_size(), 3) << mode;
    EXPECT_EQ(record.measurements(0).step(), 3u) << mode;
    EXPECT_EQ(record.measurements(2).step(), 8u) << mode;
    EXPECT_EQ(record.measurements(2).samples(), record.samples()) << mode;
    EXPECT_EQ(record.measurements(2).updates(), record.updates()) << mode;
    EXPECT_GE(record.measurements(2).trained_s(), record.trained_s()) << mode;
    EXPECT_GT(record.measurements(2).accuracy(), 0) << mode;
    EXPECT_GT(record.measurements(2).loss(), 0) << mode;
  }
}

TEST(VirtualRun, UpdatesAreClocksOrPushes) {
  const ClusterFile cluster = ParseTestCluster(kCluster);
  const std::map<std::string, uint64_t> expected = {
      {"sync", 8}, {"ring", 8}, {"local(3)", 3}, {"async", 4 * 8}};
  for (const auto& [mode, updates] : expected) {
    EXPECT_EQ(RunVirtually(MakePlan(mode, 8, 8), cluster).record.updates(), updates) << mode;
  }
  const auto record = RunVirtually(MakePlan("local(4)", 8, 8), cluster).record;
  ASSERT_EQ(record.measurements_size(), 3);
  EXPECT_EQ(record.measurements(0).updates(), 0u);  // after 3 steps
  EXPECT_EQ(record.measurements(1).updates(), 1u);  // after 6
  EXPECT_EQ(record.measurements(2).updates(), 2u);
}

TEST(VirtualRun, IsTheSameEachTimeWhateverTheThreads) {
  const ClusterFile cluster = ParseTestCluster(kCluster);
  for (const std::string& mode : AllModes()) {
    const RunPlan plan = MakePlan(mode, 8, 6);
    const VirtualOutcome first = RunVirtually(plan, cluster, {.threads = 1});
    for (const uint32_t threads : {1, 2}) {
      const VirtualOutcome again = RunVirtually(plan, cluster, {.threads = threads});
      EXPECT_EQ(again.record.SerializeAsString(), first.record.SerializeAsString()) << mode;
      EXPECT_EQ(again.weights, first.weights) << mode;
      EXPECT_EQ(again.virtual_s, first.virtual_s) << mode;
    }
  }
}

TEST(VirtualRun, AnotherSeedIsAnotherRun) {
  const ClusterFile cluster = ParseTestCluster(kCluster);
  const VirtualOutcome one = RunVirtually(MakePlan("sync", 8, 4), cluster);
  const VirtualOutcome other = RunVirtually(MakePlan("sync", 8, 4, {"seed=2"}), cluster);
  EXPECT_NE(one.weights, other.weights);
  EXPECT_NE(one.record.trained_s(), other.record.trained_s());
}

// Loss falls, and sync, ring and lazy(0) make of the same gradients the same weights.
TEST(VirtualRun, LearnsAndSyncDoesNotDependOnTime) {
  const ClusterFile cluster = ParseTestCluster(kCluster);
  const ClusterFile other = ParseTestCluster(
      "nodes { count: 4 ranks: 2 compute { constant_ms: 1 } link { gbit_per_s: 10 } } "
      "servers { link { gbit_per_s: 10 } }");
  const VirtualOutcome slow = RunVirtually(MakePlan("sync", 8, 30), cluster);
  const VirtualOutcome quick = RunVirtually(MakePlan("sync", 8, 30), other);
  EXPECT_EQ(slow.weights, quick.weights);
  EXPECT_GT(slow.record.trained_s(), 2 * quick.record.trained_s());
  EXPECT_EQ(RunVirtually(MakePlan("ssp(0)", 8, 30), other).weights, quick.weights);
  const proto::RunRecord& record = quick.record;
  EXPECT_LT(record.windows(record.windows_size() - 1).loss(), 0.8 * record.windows(0).loss());
}

TEST(VirtualRun, LargeBatchesLearnInEveryModeThatTakesTheirRecipe) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 4 ranks: 2 compute { constant_ms: 1 } link { gbit_per_s: 10 } } "
      "servers { link { gbit_per_s: 10 } }");
  const std::map<std::string, std::vector<std::string>> recipes = {
      {"sync", {"optimizer.lars={coefficient: 0.05}", "schedule.warmup_epochs=0.1"}},
      {"delay1", {"optimizer.lars={coefficient: 0.05}"}},
      {"ring", {"optimizer.clip_norm=1", "schedule.base_batch=16", "push.codec=FP16"}},
      {"async", {"optimizer.clip_norm=1"}},
      {"local(3)", {"optimizer.clip_norm=1"}},
      {"quorum(3)", {"optimizer.rmsprop_warmup={center_epochs: 0.1 width_epochs: 0.2}"}}};
  for (const auto& [mode, settings] : recipes) {
    const proto::RunRecord record = RunVirtually(MakePlan(mode, 8, 30, settings), cluster).record;
    EXPECT_EQ(record.failure(), "") << mode;
    ASSERT_EQ(record.windows_size(), 15) << mode;
    EXPECT_LT(record.windows(14).loss(), 0.9 * record.windows(0).loss()) << mode;
  }
}

TEST(VirtualRun, TestsWithStatisticsOfTheLastBatchIfTheJobSaysSo) {
  const ClusterFile cluster = ParseTestCluster(kCluster);
  std::vector<std::string> settings = {"model.zoo=cnn", "data.synthetic.height=8",
                                       "data.synthetic.width=8"};
  const VirtualOutcome running = RunVirtually(MakePlan("sync", 8, 6, settings), cluster);
  settings.push_back("model.batch_norm=LAST_BATCH");
  const VirtualOutcome last = RunVirtually(MakePlan("sync", 8, 6, settings), cluster);
  ASSERT_GT(last.weights.size(), running.weights.size());
  ASSERT_EQ(last.record.measurements_size(), running.record.measurements_size());
  // Training does not see them: the weights before them are the same.
  EXPECT_TRUE(std::equal(running.weights.begin(), running.weights.end(), last.weights.begin()));
  for (int i = 0; i < last.record.measurements_size(); ++i) {
    EXPECT_NE(last.record.measurements(i).loss(), running.record.measurements(i).loss()) << i;
  }
}

TEST(VirtualRun, ALossThatIsNoNumberIsAFailureOfTheJob) {
  const VirtualOutcome outcome = RunVirtually(
      MakePlan("sync", 8, 8, {"debug.nan_rank=3", "debug.nan_step=5"}), ParseTestCluster(kCluster));
  EXPECT_EQ(outcome.record.failure(), "rank 3: loss is NaN at step 5");
  EXPECT_TRUE(outcome.record.has_diverged());
  EXPECT_EQ(outcome.record.steps(), 5u);
  EXPECT_TRUE(outcome.weights.empty());
}

TEST(VirtualRun, MoreThanAYearIsAFailure) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 2 compute { constant_ms: 1e7 slow: 1e4 } link { gbit_per_s: 1 } } "
      "servers { link { gbit_per_s: 1 } }");
  const proto::RunRecord record = RunVirtually(MakePlan("sync", 2, 500), cluster).record;
  EXPECT_EQ(record.failure(), "it takes more than a year");
  EXPECT_FALSE(record.has_diverged());
  EXPECT_NEAR(record.steps(), 365 * 86400 / 1e5, 1);
}

TEST(VirtualRun, ALinkThatMovesNextToNothingIsAFailure) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 2 compute { constant_ms: 1 } link { gbit_per_s: 1e-300 } } "
      "servers { link { gbit_per_s: 1 } }");
  EXPECT_EQ(RunVirtually(MakePlan("sync", 2, 8), cluster).record.failure(),
            "node 0: server tcp://server-0:1 could not be reached for 30s (no answer to HELLO)");
}

TEST(VirtualRunner, RefusesWhatItCannotRun) {
  const auto runner = CreateVirtualRunner(ParseTestCluster(kCluster), 1);
  EXPECT_EQ(runner->Check(MakePlan("sync", 8, 4)), absl::OkStatus());
  RunPlan plan = MakePlan("sync", 9, 4);
  EXPECT_EQ(runner->Check(plan).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(runner->Check(plan).message()).substr(0, 7), "ranks: ");
  plan = MakePlan("sync", 2, 4);
  plan.job.mutable_program()->set_path("mine");
  EXPECT_EQ(
      runner->Check(plan).message(),
      "program: in virtual time a program is a script *.py that defines a strata.Task; this one "
      "owns its loop, and runs live only");
  plan = MakePlan("sync", 2, 4);
  plan.job.set_exchange(proto::Job::MPI);
  EXPECT_EQ(runner->Check(plan).message(),
            "exchange: virtual time knows PARAMETER_SERVER and RING only");
  plan = MakePlan("sync", 2, 4);
  plan.job.set_tensorboard(true);
  EXPECT_EQ(runner->Check(plan).message(),
            "tensorboard: in virtual time no worker writes events; the report has the curves");
  EXPECT_EQ(runner->Check(MakePlan("ring", 2, 4)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(VirtualRunner, TellsProgressAndEndsWhenToldTo) {
  const auto runner = CreateVirtualRunner(ParseTestCluster(kCluster), 2);
  std::vector<double> done;
  const auto record = runner->Run(
      MakePlan("sync", 8, 4), [&](const RunProgress& progress) { done.push_back(progress.done); });
  ASSERT_EQ(record.status(), absl::OkStatus());
  EXPECT_EQ(done, (std::vector<double>{0.25, 0.5, 0.75, 1}));
  const auto stopped =
      runner->Run(MakePlan("async", 8, 100000), [&](const RunProgress&) { runner->Stop(); });
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
}

// The model of time against what can be worked out on paper.

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

// Seconds of one more step in the steady state.
double StepSeconds(const std::string& mode, uint32_t ranks, const ClusterFile& cluster,
                   const std::vector<std::string>& more = {}) {
  const double short_s = RunVirtually(MakePlan(mode, ranks, 6, more), cluster).record.trained_s();
  const double long_s = RunVirtually(MakePlan(mode, ranks, 16, more), cluster).record.trained_s();
  return (long_s - short_s) / 10;
}

// The number of elements of MakePlan's model.
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

// A shard's time for frames adds up if it is the bottleneck.
TEST(VirtualTimes, AShardTakesItsTimeForEveryFrame) {
  std::string text = LinksOf(2, 1);
  text.insert(text.rfind('}'), " cpu_us_per_frame: 1000 ");
  const double frames = 2.0 * ((ModelElements() + 1023) / 1024);
  EXPECT_NEAR(StepSeconds("sync", 2, ParseTestCluster(text)), frames * 0.001,
              0.05 * frames * 0.001);
}

ClusterFile FileOf(const std::string& compute) {
  ClusterFile file{.cluster = *ParseCluster("nodes { compute { " + compute + " } }", "c"),
                   .traces = {{"t.ms", {1, 2, 3, 4, 5}}}};
  FillClusterDefaults(&file.cluster);
  return file;
}

std::vector<double> Times(const ClusterFile& file, uint32_t rank, size_t steps, uint64_t seed = 1) {
  const ComputeTime time(file, 0, seed, rank);
  std::vector<double> ms;
  for (size_t step = 0; step < steps; ++step) {
    ms.push_back(absl::ToDoubleMilliseconds(time.Of(step)));
  }
  return ms;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(ComputeTime, IsConstantTimesSlow) {
  EXPECT_EQ(Times(FileOf("constant_ms: 2.5 slow: 4"), 3, 3), (std::vector<double>{10, 10, 10}));
}

TEST(ComputeTime, HasTheDistributionThatWasAskedFor) {
  const auto normal = Times(FileOf("normal { mean_ms: 20 deviation_ms: 3 }"), 0, 20000);
  EXPECT_NEAR(Mean(normal), 20, 0.1);
  std::vector<double> squares;
  for (const double ms : normal) squares.push_back((ms - 20) * (ms - 20));
  EXPECT_NEAR(std::sqrt(Mean(squares)), 3, 0.1);
  auto log_normal = Times(FileOf("log_normal { median_ms: 20 sigma: 0.5 }"), 0, 20001);
  EXPECT_NEAR(Mean(log_normal), 20 * std::exp(0.125), 0.3);
  std::nth_element(log_normal.begin(), log_normal.begin() + 10000, log_normal.end());
  EXPECT_NEAR(log_normal[10000], 20, 0.3);
}

TEST(ComputeTime, IsNeverNegative) {
  const auto times = Times(FileOf("normal { mean_ms: 1 deviation_ms: 10 }"), 0, 1000);
  EXPECT_EQ(*std::min_element(times.begin(), times.end()), 0);
}

TEST(ComputeTime, IsAFunctionOfSeedRankAndStep) {
  const ClusterFile file = FileOf("normal { mean_ms: 20 deviation_ms: 3 }");
  EXPECT_EQ(Times(file, 1, 50), Times(file, 1, 50));
  EXPECT_NE(Times(file, 1, 50), Times(file, 2, 50));
  EXPECT_NE(Times(file, 1, 50, 1), Times(file, 1, 50, 2));
}

TEST(ComputeTime, TracesAreCycledFromALineOfTheRanksOwn) {
  const ClusterFile file = FileOf("trace_file: \"t.ms\" slow: 2");
  std::vector<double> begins;
  for (uint32_t rank = 0; rank < 40; ++rank) {
    const auto times = Times(file, rank, 7);
    for (size_t step = 0; step + 1 < times.size(); ++step) {
      EXPECT_EQ(times[step + 1], times[step] == 10 ? 2 : times[step] + 2) << rank;
    }
    begins.push_back(times[0]);
  }
  std::sort(begins.begin(), begins.end());
  EXPECT_EQ(std::unique(begins.begin(), begins.end()) - begins.begin(), 5);
}

}  // namespace

}  // namespace strata::compare
