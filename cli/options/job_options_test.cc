#include "cli/options/job_options.h"

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

constexpr char kText[] = "name: 'x' model { zoo: 'mlp' } data { synthetic {} } ranks: 2";

std::string ErrorOf(const std::string& text, const JobOptions& options) {
  auto job = JobFrom(text, options);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

TEST(JobOptions, SettingsFollowTheModeAndDefaultsAreFilledIn) {
  auto job = JobFrom(kText, {"f", {"consistency.lazy.staleness=3", "epochs=4"}, "sync"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->consistency().lazy().staleness(), 3u);
  EXPECT_EQ(job->epochs(), 4u);
  EXPECT_EQ(job->window(), 4u);
}

TEST(JobOptions, WhoSpoilsTheJobIsNamed) {
  EXPECT_EQ(ErrorOf(kText, {"f", {"epochs=2", "ranks=5000"}, ""}),
            "--set ranks=5000: ranks: 5000 is not in 1 to 1024");
  EXPECT_EQ(ErrorOf(kText, {"f", {"ranks=many"}, ""}),
            "--set ranks=many: Expected integer, got: many");
  EXPECT_EQ(ErrorOf("name: 'x' ranks: 2", {"f", {"epochs=2"}, ""}),
            "f: model, program: one of them is required");
}

TEST(JobOptions, SettingsMayBeWrongTillTheLastOne) {
  EXPECT_TRUE(JobFrom(kText, {"f", {"window=1", "window=2"}, ""}).ok());
}

TEST(JobOptions, StragglersAreDelaysOfTheJob) {
  JobOptions options = {"f", {}, ""};
  options.stragglers = {"node=1,slow=4x", "node=0,delay=30ms±10ms"};
  const auto job = JobFrom(kText, options);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->debug().delays_size(), 2);
  EXPECT_EQ(job->debug().delays(0).slow(), 4);
  EXPECT_EQ(job->debug().delays(1).jitter_ms(), 10);
  options.stragglers = {"node=2,slow=4x"};
  EXPECT_EQ(ErrorOf(kText, options),
            "--straggler node=2,slow=4x: debug.delays.node: 2 is not in 0 to 1");
  options.stragglers = {"slow=4x"};
  EXPECT_EQ(ErrorOf(kText, options),
            "--straggler slow=4x: node is missing, as in node=1,slow=4x or "
            "node=1,delay=30ms+-10ms");
}

TEST(JobOptions, AModeByNameMayBeChangedFurther) {
  auto job = JobFrom(kText, {"f", {"consistency.lazy.staleness=1"}, "lazy:diloco(16)"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->consistency().lazy().local_steps(), 16u);
  EXPECT_EQ(job->consistency().lazy().outer().momentum(), 0.9f);
  EXPECT_EQ(job->consistency().lazy().staleness(), 1u);
  EXPECT_EQ(JobFrom(kText, {"f", {}, "ring"})->exchange(), proto::Job::RING);
  EXPECT_TRUE(JobFrom(kText, {"f", {}, "async"})->consistency().has_async());
  EXPECT_TRUE(JobFrom(kText, {"f", {}, "sync"})->consistency().has_sync());
  EXPECT_EQ(JobFrom(kText, {"f", {}, "lazy"})->consistency().lazy().staleness(), 2u);
}

TEST(JobOptions, AModeThatIsNoneIsNamed) {
  EXPECT_EQ(ErrorOf(kText, {"f", {}, "asink"}),
            "--mode asink: \"asink\" is not one of sync, delay1, ssp(s), local(H), diloco(H), "
            "quorum(K), async, async_damped, async_dc, easgd, significance, lazy, ring");
  EXPECT_EQ(ErrorOf(kText, {"f", {}, "ssp"}),
            "--mode ssp: \"ssp\" wants its staleness, as in \"ssp(3)\"");
  EXPECT_EQ(ErrorOf(kText, {"f", {}, "async:ssp(3)"}),
            "--mode async:ssp(3): \"async:ssp(3)\": ssp(3) is lazy");
}

TEST(JobOptions, AModeGivenAsAValueIsAnsweredWithHowToWriteIt) {
  EXPECT_EQ(ErrorOf(kText, {"f", {"consistency=async"}, ""}),
            "--set consistency=async: consistency has fields of its own: write "
            "consistency.async={} or --mode async");
}

TEST(JobOptions, NoEpochsAreRefusedUnlessStepsAreCounted) {
  EXPECT_EQ(ErrorOf(kText, {"f", {"epochs=0"}, ""}),
            "--set epochs=0: epochs must be at least 1, unless max_steps is set before");
  EXPECT_TRUE(JobFrom(kText, {"f", {"max_steps=5", "epochs=0"}, ""}).ok());
}

TEST(JobOptions, ATraceRecordsStepsUnlessTheJobSaysWhich) {
  EXPECT_FALSE(JobFrom(kText, {"f", {}, ""})->has_trace());
  EXPECT_EQ(JobFrom(kText, {"f", {}, "", "t.json"})->trace().steps(), kTraceSteps);
  const auto job = JobFrom(kText, {"f", {"trace={first_step: 7 steps: 3}"}, "", "t.json"});
  EXPECT_EQ(job->trace().first_step(), 7u);
  EXPECT_EQ(job->trace().steps(), 3u);
  EXPECT_EQ(ErrorOf(kText, {"f", {"exchange=MPI"}, "", "t.json"}),
            "--trace t.json: trace: exchange: MPI has no daemons that could gather one");
}

TEST(JobOptions, AFirstStepIsEnoughForATrace) {
  const auto job = JobFrom(kText, {"f", {"trace.first_step=7"}, "", "t.json"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->trace().first_step(), 7u);
  EXPECT_EQ(job->trace().steps(), kTraceSteps);
}

}  // namespace
}  // namespace strata::cli
