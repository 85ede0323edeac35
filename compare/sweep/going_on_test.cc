#include "compare/sweep/going_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job/job.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

// What is left of its last whole round follows it.
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
