// What holds of every run: that it is the same each time, and that every mode ends.
#include "compare/virtual_time/virtual_run.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compare/virtual_time/virtual_fixture.h"
#include "compare/virtual_time/virtual_runner.h"
#include "gtest/gtest.h"

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
  EXPECT_EQ(outcome.record.steps(), 5u);
  EXPECT_TRUE(outcome.weights.empty());
}

TEST(VirtualRun, MoreThanAYearIsAFailure) {
  const ClusterFile cluster = ParseTestCluster(
      "nodes { count: 2 compute { constant_ms: 1e7 slow: 1e4 } link { gbit_per_s: 1 } } "
      "servers { link { gbit_per_s: 1 } }");
  const proto::RunRecord record = RunVirtually(MakePlan("sync", 2, 500), cluster).record;
  EXPECT_EQ(record.failure(), "it takes more than a year");
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

}  // namespace
}  // namespace strata::compare
