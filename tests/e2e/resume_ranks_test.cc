// A job without exchange, whose rank alone has the weights, goes on from its checkpoints.
#include <signal.h>

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 100;

proto::Job AloneJob(const std::string& folder, int steps) {
  proto::Job job = CheckpointedJob(folder, 1, steps);
  job.set_ranks(1);
  job.set_exchange(proto::Job::NONE);
  return job;
}

class RankAlone : public Checkpointed {};

TEST_F(RankAlone, GoesOnWithTheBitsOfAnUndisturbedRun) {
  Start({.servers = 1, .shards = 1, .nodes = 1, .slots = 1});
  const std::string undisturbed = Model(Run(AloneJob("whole", kSteps)));
  proto::Job job = AloneJob("killed", kSteps);
  GoOnByItself(&job);
  SlowDown(&job, 10);
  const JobId id = Submit(job);
  const uint64_t newest = AwaitCheckpoint(id, 20).checkpoints().newest_step();
  kill(ListProcesses("rank").front(), SIGKILL);
  proto::JobStatus status = cluster_->WaitForEnd(id);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  ASSERT_EQ(status.restarts_size(), 1);
  EXPECT_GE(status.restarts(0).step(), newest);
  EXPECT_TRUE(Model(status) == undisturbed);
  const std::string dir = TestDir() + "/killed";
  EXPECT_EQ(RunStrata({"checkpoint", "verify", dir}).status.code, 0);
  const std::string file = TestDir() + "/weights.safetensors";
  const CommandResult exported = RunStrata({"checkpoint", "export", dir, file, "--optimizer"});
  EXPECT_EQ(exported.status.code, 0) << exported.err;
  EXPECT_TRUE(std::filesystem::exists(file));
  // Another command goes on from it, too; one with servers does not.
  status = Run(AloneJob("more", kSteps + 20), FromFolder(dir));
  EXPECT_EQ(status.checkpoints().resumed_step(), 100u);
  // So does a cluster that a command makes for it.
  proto::Job local = AloneJob("local", kSteps + 20);
  local.set_run_dir("local-run");
  const CommandResult ran =
      RunStrata({"local", "--nodes", "1", "--slots", "1", "--servers", "0", "--job",
                 WriteJob(TestDir(), local), "--resume", dir, "--runs", TestDir()});
  EXPECT_EQ(ran.status.code, 0) << ran.err;
  EXPECT_TRUE(Content(TestDir() + "/local-run/model.safetensors") == Model(status));
  EXPECT_LT(Metrics(TestDir() + "/local-run").size(), 10u) << "it has begun anew";
  proto::Job served = CheckpointedJob("served", 1, kSteps);
  served.set_ranks(1);
  EXPECT_THAT(Failure(served, FromFolder(dir)), HasSubstr("exchange"));
}

}  // namespace
}  // namespace strata::tests
