// What the form of a worker's log lines means for the processes that it starts.
#include "common/log_format.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/child_launch.h"
#include "worker/agent/metrics_line.h"
#include "worker/agent/runs/run_directory.h"

namespace strata::worker {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(ChildLaunch, AnAggregatorLogsInTheWorkersFormat) {
  EXPECT_THAT(
      ChildArguments({}, /*is_aggregator=*/true),
      ElementsAre("strata", "aggregator", "--launch", "/proc/self/fd/4", "--log-format", "text"));
  SetLogFormat(LogFormat::kJson);
  const auto aggregator = ChildArguments({}, /*is_aggregator=*/true);
  const auto rank = ChildArguments({}, /*is_aggregator=*/false);
  SetLogFormat(LogFormat::kText);
  EXPECT_THAT(aggregator, ElementsAre("strata", "aggregator", "--launch", "/proc/self/fd/4",
                                      "--log-format", "json"));
  EXPECT_THAT(rank, Not(Contains("--log-format")));
}

TEST(RunDirectory, TakesTheMessageOfALogLineThatIsJson) {
  const std::string log = testing::TempDir() + "/json.log";
  const auto line = [](LogLevel level, const std::string& message) {
    return JsonLogLine(absl::FromUnixSeconds(1), level, "aggregator of node 1", message);
  };
  ASSERT_TRUE(AppendLine(log, line(LogLevel::kInfo, "step 7")).ok());
  EXPECT_EQ(LastLine(log), "");
  ASSERT_TRUE(AppendLine(log, line(LogLevel::kError, "the \"disk\" is full")).ok());
  ASSERT_TRUE(AppendLine(log, line(LogLevel::kDebug, "ends")).ok());
  EXPECT_EQ(LastLine(log), "the \"disk\" is full");
  const std::string of_a_program = R"({"level":"info","message":"mine"})";
  ASSERT_TRUE(AppendLine(log, of_a_program).ok());
  EXPECT_EQ(LastLine(log), of_a_program);
}

}  // namespace
}  // namespace strata::worker
