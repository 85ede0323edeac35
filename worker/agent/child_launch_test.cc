#include "worker/agent/child_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/log_format.h"

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

}  // namespace
}  // namespace strata::worker
