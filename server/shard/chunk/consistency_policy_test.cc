#include "server/shard/chunk/consistency_policy.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

ConsistencyPolicy Lazy(uint32_t staleness, proto::Lazy::Apply apply = proto::Lazy::PER_CLOCK) {
  proto::Consistency consistency;
  consistency.mutable_lazy()->set_staleness(staleness);
  consistency.mutable_lazy()->set_apply(apply);
  return ConsistencyPolicy::Of(consistency);
}

ConsistencyPolicy Async(proto::Async::Damping damping) {
  proto::Consistency consistency;
  consistency.mutable_async()->set_damping(damping);
  return ConsistencyPolicy::Of(consistency);
}

TEST(ConsistencyPolicy, SyncAnswersOnceEveryNodeHasPushedTheClock) {
  const ConsistencyPolicy sync = ConsistencyPolicy::Of(proto::Consistency());
  EXPECT_TRUE(sync.applies_per_clock());
  EXPECT_EQ(sync.open_clocks_max(), 1u);
  EXPECT_FALSE(sync.MayAnswer(4, 4));
  EXPECT_TRUE(sync.MayAnswer(4, 5));
  EXPECT_EQ(sync.StalenessOf(4, 5, 3), 0u);
}

TEST(ConsistencyPolicy, LazyAnswersUpToItsBoundAheadOfTheSlowest) {
  const ConsistencyPolicy lazy = Lazy(3);
  EXPECT_TRUE(lazy.MayAnswer(2, 0));
  EXPECT_FALSE(lazy.MayAnswer(3, 0));
  EXPECT_TRUE(lazy.MayAnswer(3, 1));
  EXPECT_TRUE(lazy.MayAnswer(3, kClockInfinity));
  EXPECT_EQ(lazy.StalenessOf(3, 1, 99), 3u);
  EXPECT_EQ(lazy.StalenessOf(3, 7, 99), 0u);
  EXPECT_EQ(lazy.open_clocks_max(), 4u);
}

TEST(ConsistencyPolicy, LazyOnArrivalKeepsTheGateAndScalesToTheClock) {
  const ConsistencyPolicy lazy = Lazy(1, proto::Lazy::ON_ARRIVAL);
  EXPECT_FALSE(lazy.applies_per_clock());
  EXPECT_TRUE(lazy.scales_to_clock());
  EXPECT_FALSE(lazy.MayAnswer(1, 0));
}

TEST(ConsistencyPolicy, AQuorumHasOneOpenClockAndVersionsThatDifferByNode) {
  proto::Consistency consistency;
  consistency.mutable_lazy()->mutable_quorum()->set_nodes(3);
  consistency.mutable_lazy()->mutable_quorum()->set_grace_ms(20);
  const ConsistencyPolicy policy = ConsistencyPolicy::Of(consistency);
  EXPECT_TRUE(policy.applies_per_clock());
  EXPECT_FALSE(policy.answers_alike());
  EXPECT_EQ(policy.open_clocks_max(), 1u);
  EXPECT_EQ(policy.quorum(), 3u);
  EXPECT_EQ(policy.grace(), absl::Milliseconds(20));
  EXPECT_TRUE(policy.MayAnswer(7, 2)) << "whoever is in no open clock";
  EXPECT_EQ(policy.StalenessOf(7, 2, 4), 4u);
  EXPECT_FALSE(Lazy(0).has_quorum());
  EXPECT_TRUE(Lazy(0).answers_alike());
}

TEST(ConsistencyPolicy, AsyncAnswersAtOnceAndDampsByStaleness) {
  const ConsistencyPolicy full = Async(proto::Async::NONE);
  EXPECT_TRUE(full.MayAnswer(1000, 0));
  EXPECT_FALSE(full.applies_per_clock());
  EXPECT_FALSE(full.scales_to_clock());
  EXPECT_EQ(full.StalenessOf(1000, 0, 6), 6u);
  EXPECT_EQ(full.Damping(6), 1.0);
  const ConsistencyPolicy damped = Async(proto::Async::INVERSE_STALENESS);
  EXPECT_EQ(damped.Damping(0), 1.0);
  EXPECT_EQ(damped.Damping(1), 1.0);
  EXPECT_EQ(damped.Damping(4), 0.25);
}

}  // namespace
}  // namespace strata::server
