#include "cli/options/job_options.h"

#include <utility>
#include <vector>

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

TEST(JobOptions, WhatIsBeyondItsBoundIsNamedWithWhoSaysIt) {
  const std::string text = "name: 'a' model { zoo: 'mlp' } data { synthetic {} }";
  const std::string large(5000, 'r');
  EXPECT_EQ(JobFrom(text + " run_dir: '" + large + "'", {.path = "job"}).status().message(),
            "job: run_dir has 5000 bytes, at most 4096 are possible");
  EXPECT_EQ(JobFrom(text + " run_dir: 'a\\000b'", {.path = "job"}).status().message(),
            "job: run_dir has a NUL byte");
}

TEST(JobOptions, WhatAProgramDoesNotReadIsRefused) {
  const std::string script =
      "name: 'x' ranks: 2 optimizer { from_program {} } program { path: 'train.py' } ";
  const std::string instead =
      ": set it in the program, and to vary it give the program an argument: "
      "program.args=--NAME=V1,--NAME=V2";
  EXPECT_EQ(
      ErrorOf(script, {"f", {"schedule.base_lr=0.05"}, ""}),
      "--set schedule.base_lr=0.05: schedule.base_lr: the script has an optimizer of its own" +
          instead);
  EXPECT_EQ(ErrorOf(script, {"f", {"window=8", "model.zoo=mlp", "data.synthetic={}"}, ""}),
            "--set model.zoo=mlp: model.zoo: the job runs a program, which has a model of its own" +
                instead);
  EXPECT_EQ(ErrorOf(script + "max_steps: 100", {"f", {}, ""}),
            "f: max_steps: belongs to model, a program ends when it likes");
  EXPECT_TRUE(JobFrom(script, {"f", {"optimizer.sgd={}", "schedule.base_lr=0.1"}, ""}).ok());
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
  EXPECT_EQ(job->consistency().preset_name(), "diloco(16)");
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

TEST(Straggler, IsASettingOfTheJob) {
  for (const auto& [text, setting] : std::vector<std::pair<std::string, std::string>>{
           {"node=1,slow=4x", "debug.delays={node: 1 slow: 4}"},
           {"slow=1.5,node=0", "debug.delays={node: 0 slow: 1.5}"},
           {"node=2,delay=30ms", "debug.delays={node: 2 delay_ms: 30 jitter_ms: 0}"},
           {"node=2,delay=30ms±10ms", "debug.delays={node: 2 delay_ms: 30 jitter_ms: 10}"},
           {"node=2,delay=1.5s+-250ms", "debug.delays={node: 2 delay_ms: 1500 jitter_ms: 250}"},
           {"node=3,slow=2x,delay=5ms", "debug.delays={node: 3 slow: 2 delay_ms: 5 jitter_ms: 0}"},
       }) {
    const auto got = SettingOfStraggler(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(*got, setting);
  }
}

TEST(Straggler, WhatIsWrongIsNamed) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "\"\" is not node, slow or delay"},
           {"slow=4x", "node is missing"},
           {"node=1", "slow or delay is missing"},
           {"node=1,node=2,slow=4", "node stands there twice"},
           {"node=one,slow=4", "node=one: not a number"},
           {"node=1,slow=0.5x", "slow=0.5x: not a number from 1 on"},
           {"node=1,slow=fast", "slow=fast: not a number from 1 on"},
           {"node=1,delay=30", "delay=30: not a duration"},
           {"node=1,delay=30ms+-ten", "delay=ten: not a duration"},
           {"node=1,speed=4", "\"speed=4\" is not node, slow or delay"},
       }) {
    const auto got = SettingOfStraggler(text);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(got.status().message(), why + ", as in node=1,slow=4x or node=1,delay=30ms+-10ms");
  }
}

}  // namespace

}  // namespace strata::cli
