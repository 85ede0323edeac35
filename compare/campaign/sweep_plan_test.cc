#include "compare/campaign/sweep_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/job/job.h"
#include "compare/campaign/campaign_plan.h"

namespace strata::compare {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 4 ranks of 16 samples, 3,200 samples: 50 steps an epoch, 100 in all.
SweepRequest RequestOf(const std::vector<std::string>& vary, const std::string& more = "") {
  const auto job = ParseJob(R"(
      name: "tiny" model { zoo: "mlp" }
      data { synthetic { train_samples: 3200 test_samples: 64 } batch_per_rank: 16 }
      ranks: 4 epochs: 2 consistency { async {} } )" +
                                more,
                            "tiny.textproto");
  EXPECT_TRUE(job.ok()) << job.status();
  return {.job = *job, .vary = vary, .cluster = "2 nodes", .version = "strata 1"};
}

absl::StatusOr<SweepPlan> PlanPlanOf(const SweepRequest& request) {
  const auto campaign = DescribeSweep(request);
  if (!campaign.ok()) return campaign.status();
  return PlanSweep(*campaign);
}

std::string PlanRefusal(const SweepRequest& request) {
  const absl::Status status = PlanPlanOf(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("\n")));
  return std::string(status.message());
}

TEST(SweepPlan, APointIsTheJobWithItsSettings) {
  const auto plan =
      PlanPlanOf(RequestOf({"schedule.base_lr=0.5,0.25", "data.batch_per_rank=16,32"}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->points.size(), 4u);
  const SweepPoint& point = plan->points[3];
  EXPECT_EQ(point.plan.mode, "schedule.base_lr=0.25+data.batch_per_rank=32");
  EXPECT_EQ(point.plan.job.schedule().base_lr(), 0.25);
  EXPECT_EQ(point.plan.job.data().batch_per_rank(), 32u);
  EXPECT_TRUE(point.plan.job.consistency().has_async());
  EXPECT_EQ(point.plan.job.seed(), 1u);
  EXPECT_EQ(point.steps, 50u);
  EXPECT_EQ(plan->points[0].steps, 100u);
  // At the end alone.
  EXPECT_EQ(point.plan.job.evaluation().every_steps(), 50u);
  EXPECT_TRUE(point.plan.job.evaluation().deferred());
  ASSERT_EQ(plan->rungs.size(), 1u);
  EXPECT_EQ(SamplesOfRung(*plan, plan->rungs[0], {0, 3}), 2u * 6400);
}

TEST(SweepPlan, RungsHaveSharesOfTheStepsAndTheLastTheJobItself) {
  SweepRequest request = RequestOf({"schedule.base_lr=0.1,0.2,0.3,0.4"});
  request.halving = 2;
  request.seeds = 2;
  const auto plan = PlanPlanOf(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->rungs.size(), 3u);
  const std::vector<RunPlan> first = RunsOfRung(*plan, plan->rungs[0], {0, 1, 2, 3});
  ASSERT_EQ(first.size(), 8u);
  EXPECT_EQ(first[5].mode, "schedule.base_lr=0.2+max_steps=25");
  EXPECT_EQ(first[5].job.max_steps(), 25u);
  EXPECT_EQ(first[5].job.evaluation().every_steps(), 25u);
  EXPECT_EQ(first[5].job.seed(), 2u);
  EXPECT_EQ(*TotalSteps(first[5].job), 25u);
  const std::vector<RunPlan> last = RunsOfRung(*plan, plan->rungs[2], {2});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].mode, "schedule.base_lr=0.3");
  EXPECT_EQ(JobToText(last[0].job), JobToText(plan->points[2].plan.job));
  EXPECT_EQ(SamplesOfRung(*plan, plan->rungs[0], {0, 1, 2, 3}), 4u * 2 * 25 * 64);
  EXPECT_EQ(SamplesOfRung(*plan, plan->rungs[2], {2}), 2u * 100 * 64);
}

TEST(SweepPlan, MeasurementsThatTheJobAsksForStay) {
  const auto plan = PlanPlanOf(RequestOf({"ranks=1,2"}, "evaluation { every_epochs: 1 }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->points[0].plan.job.evaluation().every_epochs(), 1u);
  EXPECT_EQ(plan->points[0].plan.job.evaluation().every_steps(), 0u);
}

TEST(SweepPlan, WhatCannotBeSweptIsRefused) {
  EXPECT_EQ(PlanRefusal(RequestOf({})), "nothing to vary");
  EXPECT_THAT(PlanRefusal(RequestOf({"schedule.lr=1,2"})),
              HasSubstr("setting \"schedule.lr=1\": Schedule has no field named \"lr\""));
  EXPECT_THAT(PlanRefusal(RequestOf({"schedule.base_lr=0.1,-1"})),
              HasSubstr("point schedule.base_lr=-1: "));
  EXPECT_EQ(PlanRefusal(RequestOf({"seed=1,2"})),
            "point seed=2: seed: it is --seeds that varies it");
  EXPECT_EQ(PlanRefusal(RequestOf({"schedule.base_lr=0.5,0.50"})),
            "point schedule.base_lr=0.50: is the same job as point schedule.base_lr=0.5");
  EXPECT_THAT(PlanRefusal(RequestOf({"exchange=MPI"})), HasSubstr("exchange: MPI"));
  EXPECT_THAT(PlanRefusal(RequestOf({"data.batch_per_rank=16,3200"})),
              HasSubstr("point data.batch_per_rank=3200: "));
  EXPECT_THAT(PlanRefusal(RequestOf({"run_dir=a,b"})), HasSubstr("run_dir: a: "));
}

TEST(SweepPlan, FieldsThatAProgramDoesNotReadAreRefusedWhatTheirValueIs) {
  const auto request = [](const std::string& vary, const std::string& optimizer) {
    SweepRequest made = RequestOf({vary});
    made.job = *ParseJob("name: 's' ranks: 2 optimizer { " + optimizer +
                             " } program { path: 'python3' args: '/a/train.py' }",
                         "job");
    return made;
  };
  const std::string instead =
      ": set it in the program, and to vary it give the program an argument: "
      "program.args=--NAME=V1,--NAME=V2";
  // 0.05 is the default.
  EXPECT_EQ(
      PlanRefusal(request("schedule.base_lr=0.05,0.1", "from_program {}")),
      "point schedule.base_lr=0.05: schedule.base_lr: the script has an optimizer of its own" +
          instead);
  EXPECT_EQ(PlanRefusal(request("epochs=1,2", "from_program {}")),
            "point epochs=1: epochs: a program makes as many epochs as it likes" + instead);
  EXPECT_EQ(PlanRefusal(request("data.batch_per_rank=16,32", "sgd {}")),
            "point data.batch_per_rank=16: data.batch_per_rank: belongs to model, a program reads "
            "its own" +
                instead);
  EXPECT_THAT(PlanRefusal(request("model.zoo=mlp,lenet5", "sgd {}")),
              HasSubstr("model.zoo: the job runs a program, which has a model of its own"));
  for (const auto& [vary, optimizer] :
       {std::pair("schedule.base_lr=0.05,0.1", "sgd {}"),
        std::pair("program.args=--lr=0.1,--lr=0.2", "from_program {}"),
        std::pair("chunk_elements=256,512", "from_program {}")}) {
    const auto plan = PlanPlanOf(request(vary, optimizer));
    EXPECT_TRUE(plan.ok()) << plan.status();
  }
}

TEST(SweepPlan, HalvingNeedsPointsAndSteps) {
  SweepRequest request = RequestOf({"schedule.base_lr=0.1,0.2"});
  request.halving = 3;
  EXPECT_EQ(PlanRefusal(request), "halving: 3 needs as many points at least, there are 2");
  request = RequestOf({"schedule.base_lr=0.1,0.2,0.3,0.4", "max_steps=3,100"});
  request.halving = 2;
  EXPECT_EQ(PlanRefusal(request),
            "point schedule.base_lr=0.1+max_steps=3: halving: a first rung of 1/8 of its 3 steps "
            "is none");
}

std::vector<std::string> NamesOf(const std::vector<std::string>& texts) {
  const auto variations = ParseVariations(texts);
  EXPECT_TRUE(variations.ok()) << variations.status();
  std::vector<std::string> names;
  if (!variations.ok()) return names;
  for (const GridPoint& point : MakeGrid(*variations)) names.push_back(point.name);
  return names;
}

std::string Refusal(const std::vector<std::string>& texts) {
  const auto status = ParseVariations(texts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Grid, IsTheCrossProductWithTheLastFieldFastest) {
  EXPECT_THAT(NamesOf({"schedule.base_lr=0.01, 0.1", "ranks=1,2,4"}),
              ElementsAre("schedule.base_lr=0.01+ranks=1", "schedule.base_lr=0.01+ranks=2",
                          "schedule.base_lr=0.01+ranks=4", "schedule.base_lr=0.1+ranks=1",
                          "schedule.base_lr=0.1+ranks=2", "schedule.base_lr=0.1+ranks=4"));
}

TEST(Grid, APointKnowsItsValuesAndSettings) {
  const auto variations = ParseVariations({"epochs=1", "schedule.base_lr=0.5"});
  ASSERT_TRUE(variations.ok()) << variations.status();
  const std::vector<GridPoint> points = MakeGrid(*variations);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_THAT(points[0].values, ElementsAre("1", "0.5"));
  EXPECT_THAT(points[0].settings, ElementsAre("epochs=1", "schedule.base_lr=0.5"));
}

TEST(Grid, CommasInBracketsAndQuotesBelongToTheValue) {
  EXPECT_THAT(NamesOf({"consistency={lazy {staleness: 1, quorum: 2}},{sync {}}"}),
              ElementsAre("consistency={lazy {staleness: 1, quorum: 2}}", "consistency={sync {}}"));
  EXPECT_THAT(NamesOf({"consistency.preset=\"f(1,2)\",g(3,4)"}),
              ElementsAre("consistency.preset=\"f(1,2)\"", "consistency.preset=g(3,4)"));
}

TEST(Grid, WhatIsNoGridIsRefusedInOneLine) {
  EXPECT_EQ(Refusal({"ranks"}),
            "\"ranks\": is not FIELD=V1,V2,..., as in schedule.base_lr=0.01,0.1");
  EXPECT_THAT(Refusal({"=1"}), HasSubstr("is not FIELD=V1,V2"));
  EXPECT_EQ(Refusal({"ranks="}), "\"ranks=\": has no values");
  EXPECT_EQ(Refusal({"ranks=1,,2"}), "\"ranks=1,,2\": an empty value between commas");
  EXPECT_EQ(Refusal({"ranks=1,2,1"}), "\"ranks=1,2,1\": value 1 is there twice");
  EXPECT_EQ(Refusal({"ranks=1,2", "epochs=1", "ranks=3"}),
            "ranks: is varied twice; all its values belong into one list");
  std::string many = "window=1";
  for (int i = 2; i <= 1025; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(Refusal({many}), "window: makes 1025 points, 1024 are allowed at most");
}

using ::testing::Pair;

std::vector<std::pair<size_t, uint64_t>> Rungs(size_t points, uint32_t eta) {
  std::vector<std::pair<size_t, uint64_t>> rungs;
  for (const Rung& rung : PlanRungs(points, eta)) rungs.emplace_back(rung.points, rung.divisor);
  return rungs;
}

TEST(Halving, TheLastRungHasTheWholeBudgetAndAtLeastOnePoint) {
  EXPECT_THAT(Rungs(8, 2), ElementsAre(Pair(8, 8), Pair(4, 4), Pair(2, 2), Pair(1, 1)));
  EXPECT_THAT(Rungs(9, 3), ElementsAre(Pair(9, 9), Pair(3, 3), Pair(1, 1)));
  EXPECT_THAT(Rungs(6, 2), ElementsAre(Pair(6, 4), Pair(3, 2), Pair(1, 1)));
  EXPECT_THAT(Rungs(26, 3), ElementsAre(Pair(26, 9), Pair(8, 3), Pair(2, 1)));
}

TEST(Halving, FewPointsOrNoHalvingAreOneRung) {
  EXPECT_THAT(Rungs(6, 0), ElementsAre(Pair(6, 1)));
  EXPECT_THAT(Rungs(3, 4), ElementsAre(Pair(3, 1)));
  EXPECT_THAT(Rungs(1, 2), ElementsAre(Pair(1, 1)));
}

TEST(Halving, TheBestGoOnInTheirOrder) {
  EXPECT_THAT(BestPoints({0.5, 0.9, 0.7, 0.8}, 2), ElementsAre(1, 3));
  EXPECT_THAT(BestPoints({0.8, 0.5, 0.9}, 2), ElementsAre(0, 2));
  EXPECT_THAT(BestPoints({0.8, 0.5, 0.9}, 5), ElementsAre(0, 1, 2));
}

TEST(Halving, OfWhatIsToBeSmallTheLeastGoOn) {
  EXPECT_THAT(BestPoints({0.5, 0.9, std::nullopt, 0.8}, 2, /*less_is_better=*/true),
              ElementsAre(0, 3));
}

TEST(Halving, TheEarlierOfEqualsGoesOn) {
  EXPECT_THAT(BestPoints({0.5, 0.8, 0.8, 0.8}, 2), ElementsAre(1, 2));
}

TEST(Halving, FailedPointsGoOnOnlyWhereNoOthersAreLeft) {
  EXPECT_THAT(BestPoints({std::nullopt, 0.1, 0.0}, 2), ElementsAre(1, 2));
  EXPECT_THAT(BestPoints({std::nullopt, 0.1, std::nullopt}, 2), ElementsAre(0, 1));
}

using ::testing::IsEmpty;

proto::Job JobOf(const std::string& more) {
  auto job = ParseJob(R"(name: "tiny" model { zoo: "mlp" }
                         data { synthetic { train_samples: 1600 } batch_per_rank: 16 }
                         epochs: 1 )" +
                          more,
                      "tiny.textproto");
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

// 100 steps in the last of 3 rungs, two seeds.
SweepPlan PlanOf(const std::string& more,
                 const std::vector<std::string>& vary = {"schedule.base_lr=0.1,0.2,0.3,0.4"}) {
  const auto campaign = DescribeSweep({.job = JobOf(more), .vary = vary, .seeds = 2, .halving = 2});
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  const auto plan = PlanSweep(*campaign);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

uint64_t LastKept(const std::string& mode, uint64_t steps) {
  proto::Job job = JobOf("consistency { preset: '" + mode + "' }");
  FillDefaults(&job);
  return LastKeptStep(job, steps);
}

TEST(GoingOn, ARunKeepsItsEndOrTheLastWholeRoundBefore) {
  EXPECT_EQ(LastKept("sync", 25), 25);
  EXPECT_EQ(LastKept("async", 25), 25);
  EXPECT_EQ(LastKept("local(8)", 25), 24);
  EXPECT_EQ(LastKept("local(8)", 24), 24);
  EXPECT_EQ(LastKept("local(8)", 7), 0);
}

// The rest of its last whole round follows it.
TEST(GoingOn, WithSignificanceTheLastRoundAtTheEndDoesNotCount) {
  proto::Job job = JobOf("consistency { lazy { local_steps: 8 significance {} } }");
  FillDefaults(&job);
  EXPECT_EQ(LastKeptStep(job, 24), 16);
  EXPECT_EQ(LastKeptStep(job, 25), 24);
  EXPECT_EQ(LastKeptStep(job, 8), 0);
}

TEST(GoingOn, ARunGoesOnFromTheSamePointAndSeedAndTheLastKeepsNothing) {
  const SweepPlan plan = PlanOf("");
  const EndsIn ends = {.is_live = true, .dir = "/out/checkpoints"};
  const std::vector<RunPlan> first = ChainedRuns(plan, 0, {0, 1, 2, 3}, ends, {});
  ASSERT_EQ(first.size(), 8u);
  for (const RunPlan& run : first) {
    EXPECT_EQ(run.chain.earlier, nullptr);
    EXPECT_TRUE(run.chain.is_gone_on_from);
    EXPECT_EQ(run.chain.checkpoint.dir(), "/out/checkpoints");
    EXPECT_EQ(run.chain.checkpoint.every_steps(), 25);
    EXPECT_EQ(run.chain.checkpoint.keep(), 1);
    EXPECT_FALSE(run.job.has_checkpoint());
  }
  std::vector<RecordPointer> earlier;
  for (int i = 0; i < 4; ++i) earlier.push_back(std::make_shared<proto::RunRecord>());
  const std::vector<RunPlan> second = ChainedRuns(plan, 1, {1, 3}, ends, earlier);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(second[2].mode, "schedule.base_lr=0.2+max_steps=50");
  EXPECT_EQ(second[2].job.seed(), 2);
  EXPECT_EQ(second[2].chain.earlier, earlier[2]);
  EXPECT_EQ(second[2].chain.checkpoint.every_steps(), 50);
  const std::vector<RunPlan> last = ChainedRuns(plan, 2, {3}, ends, {earlier[0], earlier[1]});
  EXPECT_EQ(last[1].chain.earlier, earlier[1]);
  EXPECT_FALSE(last[1].chain.is_gone_on_from);
  EXPECT_EQ(last[1].chain.checkpoint.dir(), "");
}

TEST(GoingOn, AJobWithCheckpointsKeepsThemWhereItSays) {
  const SweepPlan plan = PlanOf("checkpoint { dir: '/shared' every_steps: 5 }");
  for (const EndsIn& ends : {EndsIn{true, "/out/checkpoints"}, EndsIn{true, ""}}) {
    const RunChain chain = ChainedRuns(plan, 0, {0, 1, 2, 3}, ends, {})[0].chain;
    EXPECT_TRUE(chain.is_gone_on_from);
    EXPECT_EQ(chain.checkpoint.dir(), "");
    EXPECT_THAT(StartsAgainWords(plan, ends), IsEmpty());
  }
}

TEST(GoingOn, WhereNoFolderIsEveryRungStartsAgainAndSaysHowToGoOn) {
  const SweepPlan plan = PlanOf("");
  const EndsIn nowhere = {.is_live = true};
  const RunChain chain =
      ChainedRuns(plan, 1, {0}, nowhere, {std::make_shared<proto::RunRecord>(), nullptr})[0].chain;
  EXPECT_EQ(chain.earlier, nullptr);
  EXPECT_FALSE(chain.is_gone_on_from);
  EXPECT_THAT(
      StartsAgainWords(plan, nowhere),
      ElementsAre("4 of 4 points start again in each rung: the job has no checkpoint; with --set "
                  "'checkpoint={dir: \"/FOLDER\" every_steps: 25}', where all hosts see that "
                  "folder, they go on"));
}

TEST(GoingOn, PointsThatCannotHaveCheckpointsStartAgainAndTheReasonIsSaid) {
  const SweepPlan plan = PlanOf("consistency { preset: 'delay1' }", {"pull.codec=FP32,FP16"});
  const EndsIn ends = {.is_live = true, .dir = "/out/checkpoints"};
  const std::vector<RunPlan> runs = ChainedRuns(plan, 0, {0, 1}, ends, {});
  EXPECT_TRUE(runs[0].chain.is_gone_on_from);
  EXPECT_FALSE(runs[1].chain.is_gone_on_from);
  EXPECT_EQ(runs[1].chain.checkpoint.dir(), "");
  EXPECT_THAT(StartsAgainWords(plan, ends),
              ElementsAre(HasSubstr("1 of 2 points starts again in each rung: checkpoint: "
                                    "consistency: double buffering goes with pull.codec")));
}

TEST(GoingOn, InVirtualTimeNothingIsKept) {
  const SweepPlan plan = PlanOf("");
  const RunChain chain = ChainedRuns(plan, 0, {0, 1, 2, 3}, {}, {})[0].chain;
  EXPECT_FALSE(chain.is_gone_on_from);
  EXPECT_THAT(StartsAgainWords(plan, {}), IsEmpty());
}

}  // namespace

}  // namespace strata::compare
