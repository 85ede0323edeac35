#include "compare/campaign/course.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "compare/campaign/campaign_fixture.h"
#include "compare/campaign/campaign_plan.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Takes 10 s of the clock for a run; what happens to which is the test's.
class FakeRunner : public Runner {
 public:
  explicit FakeRunner(FakeClock* clock) : clock_(clock) {}

  absl::Status Check(const RunPlan& plan) override {
    return plan.mode == refused ? absl::InvalidArgumentError("cannot be") : absl::OkStatus();
  }
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) override {
    made.push_back(RunName(plan.mode, plan.job.seed()));
    if (made.back() == stopped_in) course->Stop();
    if (stops > 0) return absl::CancelledError("by Stop");
    if (made.back() == lost_in) return absl::UnavailableError("server s0 is lost");
    clock_->Advance(absl::Seconds(10));
    progress({.done = 0.5, .text = "half"});
    proto::RunRecord record;
    record.set_mode(plan.mode);
    record.set_seed(plan.job.seed());
    *record.mutable_job() = plan.job;
    if (plan.mode == "async") record.set_failure(async_fails);
    record.set_has_diverged(plan.mode == "async" && async_diverges);
    if (made.back() == stopped_after) course->Stop();
    return record;
  }
  void Stop() override { ++stops; }

  std::string async_fails = "rank 0: loss is NaN at step 3";
  bool async_diverges = true;
  std::string refused, stopped_in, stopped_after, lost_in;
  Course* course = nullptr;
  std::vector<std::string> made;
  int stops = 0;

 private:
  FakeClock* clock_;
};

class CourseTest : public CampaignTest {
 protected:
  absl::StatusOr<std::vector<proto::RunRecord>> Run(FakeRunner* runner, uint32_t seeds = 2) {
    const proto::Campaign campaign = CampaignIn("sync,async", seeds);
    auto folder = CampaignFolder::Open(dir_, campaign);
    EXPECT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ((*folder)->Begin(), absl::OkStatus());
    Course course(
        ListRuns(campaign), folder->get(), {runner}, &clock_,
        {.on_progress = [this](const CourseProgress& progress) { progress_.push_back(progress); },
         .on_run = [this](const CourseProgress& progress,
                          const proto::RunRecord&) { ends_.push_back(progress); }});
    runner->course = &course;
    auto records = course.Run();
    done_ = course.done();
    return records;
  }

  FakeClock clock_;
  std::vector<CourseProgress> progress_, ends_;
  size_t done_ = 0;
};

TEST_F(CourseTest, AFailedRunIsAResultLikeAnother) {
  FakeRunner runner(&clock_);
  const auto records = Run(&runner);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(runner.made, ElementsAre("sync-seed1", "async-seed1", "sync-seed2", "async-seed2"));
  ASSERT_EQ(records->size(), 4u);
  EXPECT_EQ((*records)[1].failure(), "rank 0: loss is NaN at step 3");
  EXPECT_EQ((*records)[2].seed(), 2u);
}

TEST_F(CourseTest, ARunThatFailedFromOutsideIsMadeAgainByTheNextCall) {
  FakeRunner first(&clock_);
  first.async_diverges = false;
  const auto failed = Run(&first, 1);
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ((*failed)[1].failure(), first.async_fails);
  FakeRunner second(&clock_);
  const auto records = Run(&second, 1);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ((*records)[1].failure(), second.async_fails);
  EXPECT_THAT(second.made, ElementsAre("async-seed1"));
  // A divergence is a result.
  FakeRunner third(&clock_);
  EXPECT_EQ(Run(&third, 1)->size(), 2u);
  EXPECT_THAT(third.made, ElementsAre());
}

TEST_F(CourseTest, ALostClusterEndsItAndTheNextCallMakesWhatIsMissing) {
  FakeRunner first(&clock_);
  first.lost_in = "sync-seed2";
  EXPECT_EQ(Run(&first).status(), absl::UnavailableError("server s0 is lost"));
  EXPECT_EQ(done_, 2u);
  FakeRunner second(&clock_);
  const auto records = Run(&second, 3);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_THAT(second.made, ElementsAre("sync-seed2", "async-seed2", "sync-seed3", "async-seed3"));
  EXPECT_EQ(records->size(), 6u);
  EXPECT_EQ(done_, 6u);
  FakeRunner third(&clock_);
  EXPECT_EQ(Run(&third)->size(), 4u);
  EXPECT_THAT(third.made, ElementsAre());
}

TEST_F(CourseTest, StopEndsItAfterTheRunsThatAreMade) {
  FakeRunner runner(&clock_);
  runner.stopped_in = "async-seed1";
  EXPECT_EQ(Run(&runner).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(runner.stops, 1);
  EXPECT_EQ(done_, 1u);
  EXPECT_THAT(runner.made, ElementsAre("sync-seed1", "async-seed1"));
}

TEST_F(CourseTest, StopBetweenRunsLetsNoOtherBegin) {
  FakeRunner runner(&clock_);
  runner.stopped_after = "sync-seed1";
  EXPECT_EQ(Run(&runner).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(done_, 1u);
  EXPECT_THAT(runner.made, ElementsAre("sync-seed1"));
}

TEST_F(CourseTest, NothingIsMadeWhereOneRunCannotBe) {
  FakeRunner runner(&clock_);
  runner.refused = "async";
  EXPECT_EQ(Run(&runner).status(), absl::InvalidArgumentError("cannot be"));
  EXPECT_THAT(runner.made, ElementsAre());
}

TEST_F(CourseTest, ProgressCountsRunsThatAreThereAndThoseMadeNow) {
  FakeRunner first(&clock_);
  first.lost_in = "sync-seed2";
  EXPECT_FALSE(Run(&first).ok());
  progress_.clear();
  ends_.clear();
  FakeRunner second(&clock_);
  EXPECT_TRUE(Run(&second).ok());
  ASSERT_EQ(progress_.size(), 2u);
  EXPECT_EQ(progress_[1].number, 4u);
  EXPECT_EQ(progress_[1].runs, 4u);
  EXPECT_EQ(progress_[1].made, 1u);
  EXPECT_EQ(progress_[1].to_make, 2u);
  EXPECT_EQ(progress_[1].elapsed, absl::Seconds(20));
  EXPECT_EQ(progress_[1].run.text, "half");
  ASSERT_EQ(ends_.size(), 2u);
  EXPECT_EQ(ends_[1].made, 2u);
}

// Opens when a given number of threads wait.
class Gate {
 public:
  explicit Gate(int count) : count_(count) {}
  void Pass() {
    absl::MutexLock lock(&mutex_);
    --count_;
    mutex_.Await(absl::Condition(
        +[](int* count) { return *count <= 0; }, &count_));
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_);
};

// Its first run begins when others are under way, too.
class RunnerBeside : public Runner {
 public:
  RunnerBeside(Gate* together, const std::string& lost_in)
      : together_(together), lost_in_(lost_in) {}

  absl::Status Check(const RunPlan&) override { return absl::OkStatus(); }
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) override {
    if (together_ != nullptr) together_->Pass();
    together_ = nullptr;
    progress({.done = 0.5, .text = "half"});
    if (plan.mode == lost_in_) return absl::UnavailableError("server s0 is lost");
    if (!lost_in_.empty()) {
      stop_.WaitForNotification();
      return absl::CancelledError("by Stop");
    }
    proto::RunRecord record;
    record.set_mode(plan.mode);
    record.set_seed(plan.job.seed());
    *record.mutable_job() = plan.job;
    return record;
  }
  void Stop() override {
    if (!stop_.HasBeenNotified()) stop_.Notify();
  }

 private:
  Gate* together_;
  const std::string lost_in_;
  absl::Notification stop_;
};

TEST_F(CourseTest, RunnersMakeRunsBesideEachOtherEachOnce) {
  const proto::Campaign campaign = CampaignIn("sync,async", 4);
  auto folder = CampaignFolder::Open(dir_, campaign);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ((*folder)->Begin(), absl::OkStatus());
  Gate together(3);
  RunnerBeside one(&together, ""), two(&together, ""), three(&together, "");
  size_t others_max = 0, ends = 0;
  Course course(ListRuns(campaign), folder->get(), {&one, &two, &three}, &clock_,
                {.on_progress =
                     [&](const CourseProgress& progress) {
                       others_max = std::max(others_max, progress.others);
                       if (progress.others == 0) {
                         EXPECT_EQ(progress.others_done, 0);
                       }
                     },
                 .on_run = [&](const CourseProgress& progress,
                               const proto::RunRecord&) { EXPECT_EQ(progress.made, ++ends); }});
  const auto records = course.Run();
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(others_max, 2u);
  EXPECT_EQ(ends, 8u);
  const std::vector<RunPlan> plans = ListRuns(campaign);
  ASSERT_EQ(records->size(), plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ((*records)[i].mode(), plans[i].mode);
    EXPECT_EQ((*records)[i].seed(), plans[i].job.seed());
  }
}

TEST_F(CourseTest, OneRunnersErrorEndsTheOthersAndIsTheOneThatIsTold) {
  const proto::Campaign campaign = CampaignIn("sync,async", 1);
  auto folder = CampaignFolder::Open(dir_, campaign);
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_EQ((*folder)->Begin(), absl::OkStatus());
  Gate together(2);
  RunnerBeside one(&together, "async"), two(&together, "async");
  Course course(ListRuns(campaign), folder->get(), {&one, &two}, &clock_, {});
  EXPECT_EQ(course.Run().status(), absl::UnavailableError("server s0 is lost"));
}

}  // namespace
}  // namespace strata::compare
