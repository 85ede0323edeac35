#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job Apply(const std::vector<std::string>& settings, proto::Job job = {}) {
  const absl::Status status = ApplySettings(settings, &job);
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

std::string ErrorOf(const std::string& setting) {
  proto::Job job;
  const absl::Status status = ApplySettings({setting}, &job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << setting;
  EXPECT_EQ(job.ByteSizeLong(), 0) << "a refused setting changes nothing";
  return std::string(status.message());
}

TEST(ApplySettings, SetsNumbersStringsBoolsAndEnums) {
  const proto::Job job = Apply({"schedule.base_lr=0.25", "name=night run", "run_dir=\"/a b\"",
                                "debug.hash_weights=true", "exchange=NONE", "ranks=3"});
  EXPECT_EQ(job.schedule().base_lr(), 0.25f);
  EXPECT_EQ(job.name(), "night run");
  EXPECT_EQ(job.run_dir(), "/a b");
  EXPECT_TRUE(job.debug().hash_weights());
  EXPECT_EQ(job.exchange(), proto::Job::NONE);
  EXPECT_EQ(job.ranks(), 3);
}

TEST(ApplySettings, TheLastOneWins) { EXPECT_EQ(Apply({"ranks=3", "ranks=5"}).ranks(), 5); }

TEST(ApplySettings, ZeroReplacesAValue) {
  EXPECT_EQ(Apply({"max_steps=7", "max_steps=0"}).max_steps(), 0);
}

TEST(ApplySettings, AMemberOfAOneofClearsTheOthers) {
  proto::Job job = Apply({"consistency.sync={}", "consistency.lazy.staleness=3"});
  EXPECT_FALSE(job.consistency().has_sync());
  EXPECT_EQ(job.consistency().lazy().staleness(), 3);
  job = Apply({"consistency.async={}"}, job);
  EXPECT_TRUE(job.consistency().has_async());
  EXPECT_FALSE(job.consistency().has_lazy());
}

TEST(ApplySettings, AMessageReplacesTheWholeMessage) {
  const proto::Job job = Apply({"schedule.warmup_epochs=2", "schedule={base_lr: 0.5}"});
  EXPECT_EQ(job.schedule().base_lr(), 0.5f);
  EXPECT_EQ(job.schedule().warmup_epochs(), 0);
}

TEST(ApplySettings, ARepeatedFieldGrows) {
  const proto::Job job =
      Apply({"debug.delays={node: 1 delay_ms: 20}", "debug.delays={node: 2 delay_ms: 5}",
             "program.args=-v", "program.args=two words", "schedule.step.boundaries_epochs=1.5"});
  ASSERT_EQ(job.debug().delays_size(), 2);
  EXPECT_EQ(job.debug().delays(1).delay_ms(), 5);
  ASSERT_EQ(job.program().args_size(), 2);
  EXPECT_EQ(job.program().args(1), "two words");
  EXPECT_EQ(job.schedule().step().boundaries_epochs(0), 1.5f);
}

TEST(ApplySettings, AValueMayHoldAnEqualsSign) {
  EXPECT_EQ(Apply({"program.args=--x=1"}).program().args(0), "--x=1");
}

TEST(ApplySettings, ErrorsNameTheSetting) {
  EXPECT_EQ(ErrorOf("ranks"), "setting \"ranks\": expected path=value");
  EXPECT_EQ(ErrorOf("=1"), "setting \"=1\": expected path=value");
  EXPECT_EQ(ErrorOf("rankz=1"), "setting \"rankz=1\": Job has no field named \"rankz\"");
  EXPECT_EQ(ErrorOf("schedule.lr=1"),
            "setting \"schedule.lr=1\": Schedule has no field named \"lr\"");
  EXPECT_EQ(ErrorOf("ranks.x=1"), "setting \"ranks.x=1\": ranks is a value and has no fields");
  EXPECT_EQ(ErrorOf("debug.delays.node=1"),
            "setting \"debug.delays.node=1\": delays is repeated: write debug.delays={...} to "
            "add to it");
  EXPECT_EQ(ErrorOf("ranks=many"), "setting \"ranks=many\": Expected integer, got: many");
  EXPECT_EQ(ErrorOf("optimizer=adam"),
            "setting \"optimizer=adam\": optimizer has fields of its own: write "
            "optimizer.adam={}");
  EXPECT_EQ(ErrorOf("schedule=0.1"),
            "setting \"schedule=0.1\": schedule has fields of its own: write schedule={...}");
  EXPECT_EQ(ErrorOf("ranks=1 epochs: 2"),
            "setting \"ranks=1 epochs: 2\": one setting sets one field");
}

}  // namespace
}  // namespace strata
