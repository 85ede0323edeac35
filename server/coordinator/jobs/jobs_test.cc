#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/jobs/job_activity.h"
#include "server/coordinator/jobs/view_agreement.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

proto::ViewChange Change(uint32_t number) {
  proto::ViewChange change;
  change.set_number(number);
  change.add_joined(7);
  return change;
}

TEST(ViewAgreement, TheLargestPromiseIsDecidedUpon) {
  ViewAgreement agreement;
  agreement.Propose(Change(3), {0, 1, 2}, absl::UnixEpoch());
  EXPECT_THAT(agreement.Unanswered(), ElementsAre(0, 1, 2));
  agreement.OnPromised(0, 3, 10);
  agreement.OnPromised(1, 3, 14);
  EXPECT_FALSE(agreement.is_agreed());
  agreement.OnPromised(2, 3, 12);
  ASSERT_TRUE(agreement.is_agreed());
  EXPECT_EQ(agreement.Decide(/*clock_before=*/0).at_clock(), 14u);
}

TEST(ViewAgreement, AChangeComesAfterTheOneBefore) {
  ViewAgreement agreement;
  agreement.Propose(Change(3), {0}, absl::UnixEpoch());
  agreement.OnPromised(0, 3, 10);
  EXPECT_EQ(agreement.Decide(20).at_clock(), 21u);
}

TEST(ViewAgreement, OtherNumbersOtherNodesAndSecondThoughtsAreNotHeard) {
  ViewAgreement agreement;
  agreement.OnPromised(0, 3, 5);
  agreement.Propose(Change(3), {0, 1}, absl::UnixEpoch());
  agreement.OnPromised(0, 2, 99);
  agreement.OnPromised(5, 3, 99);
  EXPECT_THAT(agreement.Unanswered(), ElementsAre(0, 1));
  agreement.OnPromised(0, 3, 10);
  agreement.OnPromised(0, 3, 99);
  agreement.OnPromised(1, 3, 8);
  EXPECT_EQ(agreement.Decide(0).at_clock(), 10u);
}

TEST(ViewAgreement, NewProcessesHavePromisedNothing) {
  ViewAgreement agreement;
  agreement.Propose(Change(3), {0, 1}, absl::UnixEpoch());
  agreement.OnPromised(0, 3, 10);
  agreement.ForgetPromise(0);
  agreement.OnPromised(1, 3, 8);
  EXPECT_THAT(agreement.Unanswered(), ElementsAre(0));
  agreement.OnPromised(0, 3, 12);
  EXPECT_EQ(agreement.Decide(0).at_clock(), 12u);
}

TEST(ViewAgreement, AJoinerMayFailToComeWhileOthersDo) {
  ViewAgreement agreement;
  proto::ViewChange change = Change(3);
  change.add_joined(8);
  agreement.Propose(change, {0}, absl::UnixEpoch());
  EXPECT_TRUE(agreement.RemoveJoiner(7));
  EXPECT_THAT(agreement.change().joined(), ElementsAre(8));
  EXPECT_FALSE(agreement.RemoveJoiner(8)) << "nobody is left";
}

TEST(ViewAgreement, NobodyLeavesForAJoinerThatCannotJoin) {
  ViewAgreement agreement;
  proto::ViewChange change = Change(3);
  change.add_joined(8);
  change.add_left(0);
  agreement.Propose(change, {0, 1}, absl::UnixEpoch());
  EXPECT_TRUE(agreement.RemoveJoiner(9)) << "it was none";
  EXPECT_FALSE(agreement.RemoveJoiner(8));
}

TEST(ViewAgreement, AClockThatNoJobComesToIsNoPromise) {
  ViewAgreement agreement;
  agreement.Propose(Change(3), {0}, absl::UnixEpoch());
  agreement.OnPromised(0, 3, ViewAgreement::kClockMax + 1);
  EXPECT_FALSE(agreement.is_agreed());
  agreement.OnPromised(0, 3, ViewAgreement::kClockMax);
  EXPECT_TRUE(agreement.is_agreed());
}

TEST(ViewAgreement, AllServersInstallIt) {
  ViewAgreement agreement;
  proto::ViewChange change = Change(3);
  change.set_at_clock(10);
  agreement.Install(change, {"s1", "s2"});
  EXPECT_TRUE(agreement.is_installing());
  agreement.OnInstalled("s1");
  agreement.OnInstalled("s1");
  EXPECT_FALSE(agreement.is_installed());
  EXPECT_THAT(agreement.uninstalled(), ElementsAre("s2"));
  agreement.OnInstalled("s2");
  EXPECT_TRUE(agreement.is_installed());
  EXPECT_THAT(agreement.uninstalled(), IsEmpty());
  agreement.End();
  EXPECT_TRUE(agreement.is_idle());
}

TEST(ViewAgreement, WhoIsAskedForHowLongIsKnownOfNodesAndThenOfServers) {
  const absl::Time begin = absl::UnixEpoch();
  ViewAgreement agreement;
  agreement.Propose(Change(3), {0}, begin);
  agreement.OnAsked(begin + absl::Seconds(1));
  EXPECT_EQ(agreement.since(), begin);
  proto::ViewChange change = Change(3);
  change.set_at_clock(10);
  agreement.Install(change, {"s1"});
  EXPECT_EQ(agreement.since(), absl::InfiniteFuture());
  agreement.OnAsked(begin + absl::Seconds(5));
  agreement.OnAsked(begin + absl::Seconds(6));
  EXPECT_EQ(agreement.since(), begin + absl::Seconds(5));
}

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
