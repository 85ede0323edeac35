#include <string>

#include "common/job/consistency.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job JobWith(const std::string& text) {
  absl::StatusOr<proto::Job> job =
      ParseJob("checkpoint { dir: '/c' every_steps: 10 } " + text, "test");
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return {};
  FillDefaults(&*job);
  return *job;
}

TEST(KeptStateTest, NodesKeepWhatPushesLeaveOutAndWeightsOfTheirOwn) {
  for (const char* plain :
       {"", "consistency { async {} }", "exchange: RING", "exchange: RING push { codec: BF16 }",
        "pull { codec: INT8 }", "ranks_max: 4 push { codec: INT8 }"}) {
    EXPECT_FALSE(NodesKeepState(JobWith(plain))) << plain;
  }
  for (const char* own : {"push { codec: INT8 }", "consistency { preset: 'local(4)' }",
                          "consistency { preset: 'diloco(4)' }", "consistency { preset: 'easgd' }",
                          "consistency { preset: 'delay1' }", "optimizer { clip_norm: 1 }",
                          "exchange: RING optimizer { clip_norm: 1 }"}) {
    EXPECT_TRUE(NodesKeepState(JobWith(own))) << own;
  }
}

TEST(KeptStateTest, CheckpointsAreCutAfterWholeRounds) {
  EXPECT_EQ(ClocksPerCheckpoint(JobWith("")), 10);
  EXPECT_EQ(ClocksPerCheckpoint(JobWith("consistency { preset: 'local(5)' }")), 2);
  EXPECT_EQ(ClocksPerCheckpoint(JobWith("consistency { preset: 'local(4)' }")), 3);
  EXPECT_EQ(ClocksPerCheckpoint(proto::Job()), 0);
}

}  // namespace
}  // namespace strata
