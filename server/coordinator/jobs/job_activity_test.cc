#include "server/coordinator/jobs/job_activity.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(JobActivity, ClocksOfRoundsAreKeptAsSteps) {
  JobActivity activity;
  proto::NodeActivity node;
  node.add_shards()->set_oldest_clock(3);
  activity.OnNode(0, node, /*steps_per_clock=*/16, kNow);
  EXPECT_EQ(activity.Node(0)->activity.shards(0).oldest_clock(), 63u) << "the round's last step";
  proto::JobCounters counters;
  counters.add_nodes()->set_clock(3);
  activity.OnShard("s1", 0, counters, /*steps_per_clock=*/16, kNow);
  EXPECT_EQ(activity.Shard("s1", 0)->nodes[0].clock(), 48u) << "steps that have been pushed";
}

TEST(JobActivity, AClockIsAStepWhereEveryStepIsPushed) {
  JobActivity activity;
  proto::NodeActivity node;
  node.add_shards()->set_oldest_clock(3);
  activity.OnNode(0, node, /*steps_per_clock=*/1, kNow);
  EXPECT_EQ(activity.Node(0)->activity.shards(0).oldest_clock(), 3u);
  proto::JobCounters counters;
  counters.add_nodes()->set_clock(3);
  activity.OnShard("s1", 0, counters, /*steps_per_clock=*/1, kNow);
  EXPECT_EQ(activity.Shard("s1", 0)->nodes[0].clock(), 3u);
}

TEST(JobActivity, KnowsSinceWhenNothingHasChanged) {
  JobActivity activity;
  proto::JobCounters counters;
  counters.add_nodes()->set_clock(3);
  activity.OnShard("s1", 0, counters, 2, kNow);
  activity.OnShard("s1", 0, counters, 2, kNow + absl::Seconds(5));
  EXPECT_EQ(activity.Shard("s1", 0)->least_since, kNow);
  EXPECT_EQ(activity.Shard("s1", 0)->nodes_since[0], kNow);
  counters.mutable_nodes(0)->set_clock(4);
  activity.OnShard("s1", 0, counters, 2, kNow + absl::Seconds(9));
  EXPECT_EQ(activity.Shard("s1", 0)->least_since, kNow + absl::Seconds(9));
}

}  // namespace
}  // namespace strata::server
