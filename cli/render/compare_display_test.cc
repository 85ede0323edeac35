#include "cli/render/compare_display.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/job/job.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/runner.h"

namespace strata::cli {
namespace {

compare::RunPlan PlanOf(const std::string& mode, uint64_t seed) {
  compare::RunPlan plan;
  plan.mode = mode;
  plan.job.set_seed(seed);
  return plan;
}

// The fifth of 21 runs, of which 3 were there before and 1 was made in 10 s.
compare::CourseProgress FifthOf21(const compare::RunPlan& plan) {
  compare::CourseProgress progress;
  progress.runs = 21;
  progress.number = 5;
  progress.to_make = 18;
  progress.made = 1;
  progress.plan = &plan;
  progress.elapsed = absl::Seconds(10);
  return progress;
}

// Captures a display's output.
class CompareDisplayTest : public ::testing::Test {
 protected:
  CompareDisplayTest() : out_(open_memstream(&text_, &size_)) {}
  ~CompareDisplayTest() override {
    std::fclose(out_);
    std::free(text_);
  }
  std::string Written() {
    std::fflush(out_);
    return std::string(text_, size_);
  }

  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* out_;
};

TEST(CompareLines, ARunEndsWithAccuracyAndTimeOrWhyItFailed) {
  const compare::RunPlan plan = PlanOf("async", 2);
  proto::RunRecord record;
  record.set_trained_s(12.345);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record), "[5/21] async, seed 2: finished after 12.3 s");
  record.add_measurements()->set_accuracy(0.5);
  record.add_measurements()->set_accuracy(0.871);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s");
  record.set_steps(50);
  record.set_resumed_step(25);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s, of which 25 of 50 steps were "
            "there");
  record.clear_resumed_step();
  record.set_began_anew("no complete checkpoint in /c");
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s; it began anew: no complete "
            "checkpoint in /c");
  record.set_failure("rank 0: loss is NaN at step 3");
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: failed: rank 0: loss is NaN at step 3");
  record.set_failure("rank 0: killed by signal 9");
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record),
            "[5/21] async, seed 2: failed: rank 0: killed by signal 9 (the same command makes this "
            "run again)");
}

TEST(CompareLines, TheTimeThatIsLeftFollowsFromWhatThisCallHasMade) {
  const compare::RunPlan plan = PlanOf("async", 2);
  compare::CourseProgress progress = FifthOf21(plan);
  EXPECT_EQ(CourseLine(progress), "[5/21] async, seed 2  campaign 19 %  ETA 2:50");  // 17 x 10 s
  progress.run = {.done = 0.25, .text = "step 5/20"};
  EXPECT_EQ(CourseLine(progress), "[5/21] async, seed 2  step 5/20  campaign 20 %  ETA 2:14");
  progress.others = 2;
  progress.others_done = 0.75;
  EXPECT_EQ(CourseLine(progress),
            "[5/21] async, seed 2  step 5/20  +2 at once  campaign 24 %  ETA 1:20");
  progress.others = 0;
  progress.others_done = 0;
  progress.made = 0;
  progress.run = {};
  EXPECT_EQ(CourseLine(progress), "[5/21] async, seed 2  campaign 14 %");
}

TEST(CompareLines, NothingIsKnownOfTheTimeLeftBeforeAnythingIsMade) {
  const compare::RunPlan plan = PlanOf("async", 2);
  compare::CourseProgress progress = FifthOf21(plan);
  EXPECT_EQ(SecondsLeft(progress), 170);  // 17 of 18 runs, of 10 s each
  progress.made = 0;
  EXPECT_EQ(SecondsLeft(progress), std::nullopt);
}

TEST(CompareLines, StragglersInWords) {
  proto::Job job;
  EXPECT_EQ(StragglerWords(job), "");
  proto::Delay* delay = job.mutable_debug()->add_delays();
  delay->set_node(1);
  delay->set_slow(4);
  delay = job.mutable_debug()->add_delays();
  delay->set_node(2);
  delay->set_delay_ms(30);
  delay->set_jitter_ms(10);
  EXPECT_EQ(StragglerWords(job),
            "node 1 takes 4 times as long; node 2 stands still for 30 ms (10 ms more or less) a "
            "step");
}

TEST(CompareLines, ARunThatLacksTheMetricSaysSo) {
  const compare::RunPlan plan = PlanOf("async", 2);
  proto::RunRecord record;
  record.set_steps(10);
  record.set_trained_s(2);
  record.add_measurements()->set_accuracy(0.5);
  EXPECT_EQ(RunEndLine(FifthOf21(plan), record, {.name = "bleu"}),
            "[5/21] async, seed 2: finished after 2.0 s; no bleu was reported, but "
            "test_accuracy: --metric NAME takes one of those");
}

// Makes runs that report a perplexity.
class PerplexityRunner final : public compare::Runner {
 public:
  absl::Status Check(const compare::RunPlan&) override { return absl::OkStatus(); }
  absl::StatusOr<proto::RunRecord> Run(const compare::RunPlan& plan, const OnProgress&) override {
    ++runs;
    proto::RunRecord record;
    record.set_mode(plan.mode);
    record.set_seed(plan.job.seed());
    *record.mutable_job() = plan.job;
    record.set_steps(10);
    (*record.add_measurements()->mutable_values())["perplexity"] = 20;
    return record;
  }
  void Stop() override {}

  int runs = 0;
};

TEST(ShownCourse, RunsThatLackTheMetricAreNotFollowedByOthers) {
  const auto job = ParseJob(R"(
      name: "tiny" model { zoo: "mlp" }
      data { synthetic { train_samples: 64 test_samples: 8 } batch_per_rank: 8 }
      ranks: 2 epochs: 1)",
                            "tiny.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto campaign = compare::PlanCampaign({.job = *job, .modes = "sync", .seeds = 3});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const std::string dir = testing::TempDir() + "/shown-course";
  std::filesystem::remove_all(dir);
  const auto folder = compare::CampaignFolder::Open(dir, *campaign);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ((*folder)->Begin(), absl::OkStatus());
  const auto plans = compare::PlanRuns(*campaign);
  ASSERT_EQ(plans->size(), 3u);
  PerplexityRunner runner;
  const auto make = [&](const std::string& metric) {
    return ShownCourse({.name = metric}).Make(*plans, folder->get(), {&runner}).status();
  };
  const absl::Status refused = absl::FailedPreconditionError(
      "no run so far is of use: no bleu was reported, but perplexity: --metric NAME takes one of "
      "those");
  EXPECT_EQ(make("bleu"), refused);
  EXPECT_EQ(runner.runs, 1);
  EXPECT_EQ(make("bleu"), refused) << "by the run that is there";
  EXPECT_EQ(runner.runs, 1);
  EXPECT_EQ(make("perplexity"), absl::OkStatus());
  EXPECT_EQ(runner.runs, 3);
  EXPECT_EQ(make("bleu"), absl::OkStatus()) << "all are there: the report says so";
}

TEST_F(CompareDisplayTest, ElsewhereThanOnATerminalThereAreOnlyEnds) {
  const compare::RunPlan plan = PlanOf("sync", 1);
  CompareDisplay display(out_, 0);
  display.ShowProgress(FifthOf21(plan));
  EXPECT_EQ(Written(), "");
  display.ShowEnd(FifthOf21(plan), proto::RunRecord());
  EXPECT_EQ(Written(), "[5/21] sync, seed 1: finished after 0.0 s\n");
}

TEST_F(CompareDisplayTest, TheLiveLineIsCutAndMakesRoomForAnEnd) {
  const compare::RunPlan plan = PlanOf("sync", 1);
  CompareDisplay display(out_, 20);
  display.ShowProgress(FifthOf21(plan));
  EXPECT_EQ(Written(), "\r\033[K[5/21] sync, seed 1");
  display.ShowEnd(FifthOf21(plan), proto::RunRecord());
  EXPECT_EQ(Written(),
            "\r\033[K[5/21] sync, seed 1\r\033[K[5/21] sync, seed 1: finished after 0.0 s\n");
}

}  // namespace
}  // namespace strata::cli
