#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/campaign/campaign_fixture.h"
#include "compare/campaign/cluster_size.h"
#include "compare/campaign/sample_sweep.h"
#include "compare/campaign/sweep_plan.h"
#include "compare/campaign/sweep_result.h"
#include "compare/campaign/tuning.h"

namespace strata::compare {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

SweepPlan ResultPlanOf(const std::string& vary, uint32_t halving, uint32_t seeds = 1) {
  const auto campaign =
      DescribeSweep({.job = TinyJob(), .vary = {vary}, .seeds = seeds, .halving = halving});
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  const auto plan = PlanSweep(*campaign);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

proto::RunRecord RunWith(double accuracy, uint64_t seed = 1) {
  return MakeRecord({.accuracy = accuracy, .seed = seed});
}

std::vector<size_t> Order(const SweepResult& result) {
  std::vector<size_t> order;
  for (const PointResult& point : result.ranking) order.push_back(point.point);
  return order;
}

TEST(SweepResult, PointsGoByAccuracyAndFailedOnesComeLast) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 0);
  const SweepResult result =
      RankResults(plan, {{{0, 1, 2, 3}, {RunWith(0.5), RunWith(-1), RunWith(0.7), RunWith(0.5)}}});
  EXPECT_THAT(Order(result), ElementsAre(2, 0, 3, 1));
  EXPECT_EQ(result.ranking[0].accuracy->mean, 0.7);
  EXPECT_EQ(result.ranking[0].steps, 100u);
  EXPECT_FALSE(result.ranking[3].accuracy.has_value());
  EXPECT_EQ(result.ranking[3].runs[0].failure, "rank 0: loss is NaN at step 3");
  EXPECT_EQ(result.samples, 4u * 6400);
  EXPECT_EQ(result.grid_samples, 4u * 6400);
}

TEST(SweepResult, AccuracyIsTheMeanOverSeedsAllOfWhichHaveFinished) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2", 0, 2);
  const RungRuns rung = {{0, 1}, {RunWith(0.4), RunWith(0.9), RunWith(0.6, 2), RunWith(-1, 2)}};
  EXPECT_THAT(MeanAccuracies(rung), ElementsAre(Optional(0.5), std::nullopt));
  const SweepResult result = RankResults(plan, {rung});
  EXPECT_THAT(Order(result), ElementsAre(0, 1));
  EXPECT_EQ(result.ranking[0].runs.size(), 2u);
  EXPECT_EQ(result.ranking[0].accuracy->count, 2);
}

TEST(SweepResult, OfARungUnderWayPointsCountWhoseSeedsAreAllMade) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3", 0, 2);
  std::vector<std::optional<proto::RunRecord>> records(6);
  records[0] = RunWith(0.1);
  records[1] = RunWith(0.4);
  records[2] = RunWith(0.6);
  records[4] = RunWith(0.8, 2);
  records[5] = RunWith(0.2, 2);
  const RungRuns made = MadeOf({0, 1, 2}, records);
  EXPECT_THAT(made.points, ElementsAre(1, 2));
  EXPECT_THAT(MeanAccuracies(made),
              ElementsAre(Optional(DoubleNear(0.6, 1e-9)), Optional(DoubleNear(0.4, 1e-9))));
  EXPECT_THAT(Order(RankResults(plan, {made})), ElementsAre(1, 2)) << "the first is left out";
}

TEST(SweepResult, WithHalvingTheMostBudgetGoesFirst) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 2);
  const SweepResult result =
      RankResults(plan, {{{0, 1, 2, 3}, {RunWith(0.3), RunWith(0.9), RunWith(0.4), RunWith(0.2)}},
                         {{1, 2}, {RunWith(0.3), RunWith(0.5)}},
                         {{2}, {RunWith(0.1)}}});
  EXPECT_THAT(Order(result), ElementsAre(2, 1, 0, 3));
  EXPECT_EQ(result.ranking[0].steps, 100u);
  EXPECT_EQ(result.ranking[0].rung, 2u);
  EXPECT_EQ(result.ranking[1].steps, 50u);
  EXPECT_EQ(result.ranking[3].steps, 25u);
  EXPECT_EQ(result.samples, 64u * (4 * 25 + 2 * 50 + 100));
  EXPECT_EQ(result.grid_samples, 64u * 400);
}

TEST(SweepResult, WhatRunsWentOnFromIsNotMadeAgain) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 2);
  const auto gone_on = [](double accuracy, uint64_t step) {
    proto::RunRecord record = RunWith(accuracy);
    record.set_resumed_step(step);
    record.set_resumed_samples(64 * step);
    return record;
  };
  proto::RunRecord anew = RunWith(0.3);
  anew.set_began_anew("no complete checkpoint");
  const SweepResult result =
      RankResults(plan, {{{0, 1, 2, 3}, {RunWith(0.3), RunWith(0.9), RunWith(0.4), RunWith(0.2)}},
                         {{1, 2}, {anew, gone_on(0.5, 25)}},
                         {{2}, {gone_on(0.1, 50)}}});
  EXPECT_EQ(result.samples, 64u * (4 * 25 + (50 + 25) + 50));
  EXPECT_EQ(result.later_runs, 3u);
  EXPECT_EQ(result.resumed_runs, 2u);
  EXPECT_EQ(result.later_steps, 2u * 50 + 100);
  EXPECT_EQ(result.resumed_steps, 25u + 50);
  EXPECT_EQ(result.ranking[0].runs[0].resumed_step, 50u);
  EXPECT_EQ(result.ranking[1].runs[0].began_anew, "no complete checkpoint");
}

using ::testing::ElementsAre;

proto::Job JobOf(uint32_t ranks, uint32_t ranks_per_node = 0,
                 proto::Job::Exchange exchange = proto::Job::PARAMETER_SERVER) {
  proto::Job job;
  job.set_ranks(ranks);
  job.set_ranks_per_node(ranks_per_node);
  job.set_exchange(exchange);
  return job;
}

std::string Why(const proto::Job& job, const ClusterSize& size) {
  const absl::Status status = CheckFits(job, size);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ClusterSize, CountsDaemonsThatAreAlive) {
  proto::ListNodesReply nodes;
  const auto add = [&nodes](proto::Role role, bool alive) {
    proto::DaemonStatus* daemon = nodes.add_daemons();
    daemon->set_role(role);
    daemon->set_alive(alive);
    return daemon;
  };
  add(proto::SERVER, true)->add_shard_ports(1);
  nodes.mutable_daemons(0)->add_shard_ports(2);
  add(proto::SERVER, false)->add_shard_ports(3);
  add(proto::WORKER, true)->set_slots(4);
  add(proto::WORKER, false)->set_slots(8);
  proto::DaemonStatus* const last = add(proto::WORKER, true);
  last->set_slots(2);
  last->set_gpu_slots(3);
  last->set_gpu_slots_used(1);
  proto::DaemonStatus* const stand_in = add(proto::WORKER, true);
  stand_in->set_slots(16);
  stand_in->set_stands_in(true);
  const ClusterSize size = MeasureCluster(nodes);
  EXPECT_THAT(size.slots, ElementsAre(4, 2));
  EXPECT_THAT(size.gpu_slots, ElementsAre(0, 3));
  EXPECT_THAT(size.gpu_slots_used, ElementsAre(0, 1));
  EXPECT_EQ(size.servers, 1u);
  EXPECT_EQ(size.shards, 2u);
  EXPECT_EQ(Words(size), "1 server with 2 shards, 2 workers with 6 slots and 3 GPU slots");
}

TEST(ClusterSize, JobsFitWhereRanksNodesAndServersDo) {
  const ClusterSize size = {.slots = {2, 2}, .servers = 1, .shards = 1};
  EXPECT_EQ(CheckFits(JobOf(4), size), absl::OkStatus());
  EXPECT_EQ(CheckFits(JobOf(2, 1), size), absl::OkStatus());
  EXPECT_EQ(CheckFits(JobOf(4, 2, proto::Job::RING), {.slots = {2, 2}}), absl::OkStatus());
  EXPECT_EQ(Why(JobOf(5), size),
            "ranks: 5 do not fit on 1 server with 1 shard, 2 workers with 4 slots");
  EXPECT_EQ(Why(JobOf(3, 1), size), "ranks: 3: needs 3 workers (ranks_per_node: 1); there are 2");
  EXPECT_EQ(Why(JobOf(4), {.slots = {4}}),
            "exchange: PARAMETER_SERVER needs a server, and there is none");
  EXPECT_EQ(Why(JobOf(2, 0, proto::Job::RING), size),
            "exchange: RING needs two nodes, but all 2 ranks are on one: more nodes, or "
            "ranks_per_node, spread them");
}

TEST(ClusterSize, OnOneNodeAProgramsRanksAreARingAndAModelIsToldOfTheOption) {
  const ClusterSize size = {.slots = {2}};
  EXPECT_EQ(Why(JobOf(2, 0, proto::Job::RING), size),
            "exchange: RING needs two nodes, but the cluster has one (--nodes 2 has two)");
  proto::Job program = JobOf(2, 0, proto::Job::RING);
  program.mutable_program()->set_path("train");
  EXPECT_EQ(CheckFits(program, size), absl::OkStatus());
}

proto::Job OnGpus(uint32_t ranks, uint32_t ranks_per_node = 0) {
  proto::Job job = JobOf(ranks, ranks_per_node);
  job.set_device(proto::Job::GPU);
  return job;
}

TEST(ClusterSize, RanksOnGpusEachNeedASlotAndAGpuSlot) {
  const ClusterSize size = {.slots = {4, 4}, .gpu_slots = {2, 1}, .servers = 1, .shards = 1};
  EXPECT_EQ(Words(size), "1 server with 1 shard, 2 workers with 8 slots and 3 GPU slots");
  EXPECT_EQ(CheckFits(OnGpus(3), size), absl::OkStatus());
  EXPECT_EQ(CheckFits(JobOf(8), size), absl::OkStatus()) << "others need none";
  EXPECT_EQ(Why(OnGpus(4), size),
            "device: GPU: needs 4 GPU slots, but all 2 worker nodes together have 3 GPU slots: w0 "
            "2, w1 1");
  EXPECT_EQ(Why(OnGpus(1), {.slots = {4}, .servers = 1}),
            "device: GPU: needs 1 GPU slot, but the one worker node has 0 GPU slots: w0 0; `strata "
            "devices` there says why, unless --gpus does");
  EXPECT_EQ(JobsAtOnce(OnGpus(1), size), 3u);
  EXPECT_EQ(JobsAtOnce(OnGpus(1), {.slots = {4, 4}, .gpu_slots = {2, 2}, .gpu_slots_used = {1, 2}}),
            1u);
  EXPECT_EQ(JobsAtOnce(OnGpus(1), {.slots = {4, 4}, .used = {4, 3}, .gpu_slots = {2, 2}}), 1u);
}

TEST(ClusterSize, AStragglerThatIsNotThereIsRefused) {
  const ClusterSize size = {.slots = {2, 2}, .servers = 1, .shards = 1};
  proto::Job job = JobOf(4);
  job.mutable_debug()->add_delays()->set_node(1);
  EXPECT_EQ(CheckFits(job, size), absl::OkStatus());
  job.mutable_debug()->add_delays()->set_node(2);
  EXPECT_EQ(Why(job, size), "debug.delays: there is no node 2: the job has 2 nodes, from 0");
}

TEST(ClusterSize, AsManyJobsAtOnceAsTheirRanksFindFreeSlots) {
  EXPECT_EQ(JobsAtOnce(JobOf(2), {.slots = {4, 4}, .servers = 1}), 4u);
  EXPECT_EQ(JobsAtOnce(JobOf(3), {.slots = {4, 4}, .servers = 1}), 2u);
  EXPECT_EQ(JobsAtOnce(JobOf(3, 3), {.slots = {4, 5}, .servers = 1}), 2u);
  EXPECT_EQ(JobsAtOnce(JobOf(4, 2), {.slots = {4, 4}, .servers = 1}), 2u);
  EXPECT_EQ(JobsAtOnce(JobOf(2), {.slots = {4, 4}, .used = {3, 4}, .servers = 1}), 0u);
  EXPECT_EQ(JobsAtOnce(JobOf(2), {.slots = {4, 4}, .used = {2}, .servers = 1}), 3u);
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<proto::Campaign> CampaignWith(const std::string& modes,
                                             const std::vector<std::string>& tune,
                                             const std::string& more = "seed: 7") {
  auto campaign = PlanCampaign({.job = TinyJob(more), .modes = modes, .seeds = 3});
  if (!campaign.ok()) return campaign.status();
  const auto variations = ParseVariations(tune);
  EXPECT_TRUE(variations.ok()) << variations.status();
  for (const proto::Variation& variation : *variations) *campaign->add_tune() = variation;
  return campaign;
}

std::string TuningRefusal(const std::string& modes, const std::vector<std::string>& tune,
                          const std::string& more = "seed: 7") {
  const auto campaign = CampaignWith(modes, tune, more);
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  return std::string(TuningRuns(*campaign).status().message());
}

proto::RunRecord RunTuningWith(double accuracy) {
  return MakeRecord({.accuracy = accuracy, .seed = 6});
}

TEST(Tuning, EachModeGetsTheSamePointsWithTheSeedBeforeTheFirst) {
  const auto campaign = CampaignWith("sync,async", {"schedule.base_lr=0.1,0.2"});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const auto runs = TuningRuns(*campaign);
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> names;
  for (const RunPlan& run : *runs) {
    names.push_back(run.mode);
    EXPECT_EQ(run.job.seed(), 6u);
    EXPECT_EQ(run.job.evaluation().every_steps(), 100u);
  }
  EXPECT_THAT(names, ElementsAre("sync+schedule.base_lr=0.1", "sync+schedule.base_lr=0.2",
                                 "async+schedule.base_lr=0.1", "async+schedule.base_lr=0.2"));
  EXPECT_FLOAT_EQ((*runs)[3].job.schedule().base_lr(), 0.2f);
}

TEST(Tuning, BeforeSeed1ThereIsASeedThatNoComparisonReaches) {
  for (const char* more : {"", "seed: 1"}) {
    auto campaign = CampaignWith("sync", {"schedule.base_lr=0.1,0.2"}, more);
    ASSERT_TRUE(campaign.ok()) << campaign.status();
    campaign->set_seeds(kSeedsMax);
    const auto runs = TuningRuns(*campaign);
    ASSERT_TRUE(runs.ok()) << runs.status();
    EXPECT_EQ((*runs)[0].job.seed(), 1u + kSeedsMax);
    EXPECT_EQ(PlanRuns(*campaign)->back().job.seed(), uint64_t{kSeedsMax});
  }
}

TEST(Tuning, EachModeRunsWithItsBestPoint) {
  const auto campaign = CampaignWith("sync,async,ring", {"schedule.base_lr=0.1,0.2,0.4"});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const Tuned tuned =
      TunedBy(*campaign, {RunTuningWith(0.5), RunTuningWith(0.7), RunTuningWith(0.7),
                          RunTuningWith(0.6), RunTuningWith(0.4), RunTuningWith(0.2),
                          RunTuningWith(-1), RunTuningWith(-1), RunTuningWith(-1)});
  EXPECT_THAT(tuned.campaign.modes(),
              ElementsAre("sync+schedule.base_lr=0.2", "async+schedule.base_lr=0.1",
                          "ring+schedule.base_lr=0.1"));
  EXPECT_EQ(tuned.campaign.seeds(), 3u);
  EXPECT_THAT(tuned.words, HasSubstr("the same 3 points with seed 6"));
  EXPECT_THAT(tuned.words, HasSubstr("sync schedule.base_lr=0.2 (70.00 %); async "
                                     "schedule.base_lr=0.1 (60.00 %); ring schedule.base_lr=0.1 "
                                     "(no point has finished)"));
  EXPECT_THAT(tuned.words, HasSubstr("9 runs and 18.0 s of training"));
  const auto plans = PlanRuns(tuned.campaign);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(plans->size(), 9u);
  EXPECT_FLOAT_EQ((*plans)[0].job.schedule().base_lr(), 0.2f);
  EXPECT_EQ((*plans)[0].job.seed(), 7u);
}

TEST(Tuning, WhatWouldBeUnfairOrCannotBeIsRefused) {
  EXPECT_THAT(TuningRefusal("sync", {"epochs=1,2"}), HasSubstr("trains on"));
  EXPECT_THAT(TuningRefusal("sync", {"schedule.lr=1"}), HasSubstr("has no field named \"lr\""));
}

}  // namespace
}  // namespace strata::compare
