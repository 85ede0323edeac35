#include "worker/agent/node_watch.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

proto::LogicalNode TwoRanks() {
  proto::LogicalNode node;
  node.set_node(1);
  node.set_first_rank(2);
  node.set_ranks(2);
  return node;
}

std::string AllRun(int) { return "running"; }

TEST(NodeWatch, NamesTheRanksOfANodeWhoseAggregatorHasSaidNothingYet) {
  NodeWatch watch(7, TwoRanks(), true, kStart);
  const auto state_of = [](int child) { return child == 2 ? std::string() : "running"; };
  const proto::NodeActivity now = watch.Now(state_of, kStart + absl::Seconds(3));
  EXPECT_EQ(now.job_id(), 7u);
  EXPECT_EQ(now.node(), 1u);
  EXPECT_EQ(now.phase(), "starting");
  EXPECT_EQ(now.silent_ms(), 3000);
  EXPECT_EQ(now.process_state(), "");
  ASSERT_EQ(now.ranks_size(), 2);
  EXPECT_EQ(now.ranks(1).rank(), 3u);
  EXPECT_EQ(now.ranks(1).process_state(), "running");
}

TEST(NodeWatch, AddsAgeAndProcessStatesToTheAggregatorsLastWord) {
  NodeWatch watch(7, TwoRanks(), true, kStart);
  proto::NodeActivity said;
  said.set_job_id(99);  // the aggregator does not decide whose word this is
  said.set_phase("training");
  said.add_ranks()->set_clock(57);
  said.add_ranks()->set_idle_ms(400);
  said.add_shards()->set_address("tcp://h:1");
  watch.OnActivity(said, kStart + absl::Seconds(10));
  const auto state_of = [](int child) {
    return child == 2 ? "stopped by a signal" : child == 1 ? "gone" : "running";
  };
  const proto::NodeActivity now = watch.Now(state_of, kStart + absl::Milliseconds(10'250));
  EXPECT_EQ(now.job_id(), 7u);
  EXPECT_EQ(now.node(), 1u);
  EXPECT_EQ(now.phase(), "training");
  EXPECT_EQ(now.silent_ms(), 250);
  EXPECT_EQ(now.process_state(), "stopped by a signal");
  EXPECT_EQ(now.ranks(0).clock(), 57u);
  EXPECT_EQ(now.ranks(0).process_state(), "running");
  EXPECT_EQ(now.ranks(1).idle_ms(), 400);
  EXPECT_EQ(now.ranks(1).process_state(), "gone");
  EXPECT_EQ(now.shards(0).address(), "tcp://h:1");
}

TEST(NodeWatch, DropsAWordAboutOtherRanks) {
  NodeWatch watch(7, TwoRanks(), true, kStart);
  watch.OnActivity(proto::NodeActivity(), kStart + absl::Seconds(1));
  EXPECT_EQ(watch.Now(AllRun, kStart + absl::Seconds(2)).silent_ms(), 2000);
}

TEST(NodeWatch, KeepsTheNewestCountOfWhatTheAggregatorRefused) {
  NodeWatch watch(7, TwoRanks(), true, kStart);
  EXPECT_EQ(watch.refusals(), transport::Refusals());
  proto::NodeRefusals said;
  for (const uint64_t count : {3, 5}) {
    proto::Refusal* refusal = said.add_refusals();
    refusal->set_cause("broken seal");
    refusal->set_count(count);
    watch.OnRefusals(said);
    said.Clear();
  }
  EXPECT_EQ(watch.refusals(), (transport::Refusals{{"broken seal", 5}}));
  proto::NodeActivity activity;
  activity.set_refused(2);
  for (int rank = 0; rank < 2; ++rank) activity.add_ranks();
  watch.OnActivity(activity, kStart);
  EXPECT_EQ(watch.refusals(),
            (transport::Refusals{{"broken seal", 5}, {"no rank, on a node's socket", 2}}));
}

TEST(NodeWatch, HearsOfNoRefusalsWhereThereIsNoAggregator) {
  NodeWatch watch(7, TwoRanks(), false, kStart);
  proto::NodeRefusals said;
  said.add_refusals()->set_count(3);
  watch.OnRefusals(said);
  EXPECT_EQ(watch.refusals(), transport::Refusals());
}

TEST(NodeWatch, KnowsARankWithoutAnAggregatorByItsReports) {
  proto::LogicalNode node;
  node.set_ranks(1);
  NodeWatch watch(7, node, false, kStart);
  EXPECT_EQ(watch.Now(AllRun, kStart + absl::Seconds(2)).ranks(0).idle_ms(), 2000);
  watch.OnReady(kStart + absl::Seconds(3));
  proto::RankReport report;
  report.set_end_step(50);
  watch.OnReport(report, kStart + absl::Seconds(5));
  const proto::NodeActivity now = watch.Now(AllRun, kStart + absl::Seconds(6));
  EXPECT_EQ(now.phase(), "training");
  EXPECT_EQ(now.ranks(0).clock(), 50u);
  EXPECT_EQ(now.ranks(0).idle_ms(), 1000);
  EXPECT_EQ(now.silent_ms(), 0);
  EXPECT_EQ(now.process_state(), "");
}

}  // namespace
}  // namespace strata::worker
