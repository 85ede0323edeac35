// The job of deploy/quickstart.sh, run by the same command.
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

TEST(Quickstart, TrainsLeNetToItsAccuracyAndShowsEachEpoch) {
  const std::string runs = TestDir() + "/runs";
  const CommandResult result =
      RunStrata({"local", "--servers", "2", "--nodes", "2", "--slots", "2", "--runs", runs, "--job",
                 "examples/fashion_lenet_sync.textproto"},
                absl::Minutes(8));
  ASSERT_EQ(result.status.code, 0) << result.err;
  for (const char* part : {"epoch 1.00/5", "epoch 5.00/5", "samples/s", "loss ", "test accuracy ",
                           "/step", "ETA ", "model.safetensors"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  const std::string run_dir = runs + "/fashion-lenet-sync-1";
  EXPECT_TRUE(std::filesystem::exists(run_dir + "/model.safetensors"));
  const auto metrics = Metrics(run_dir);
  EXPECT_GE(FinalAccuracy(metrics), 0.87);
  for (const char* field : {"step", "samples", "loss", "samples_per_s", "bytes_pushed",
                            "bytes_answered", "staleness", "waiting_share"}) {
    EXPECT_TRUE(metrics.front().contains(field)) << field;
  }
}

}  // namespace
}  // namespace strata::tests
