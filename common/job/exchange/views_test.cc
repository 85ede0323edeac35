#include "common/job/exchange/views.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Nodes 0 to 3 with two ranks each, of which 2 and 3 come later, if they do.
proto::JobRecord Record() {
  proto::JobRecord record;
  record.mutable_view()->set_number(3);
  for (uint32_t node = 0; node < 4; ++node) {
    proto::LogicalNode* const logical = record.mutable_view()->add_nodes();
    logical->set_node(node);
    logical->set_first_rank(node * 2);
    logical->set_ranks(2);
    logical->set_absent(node >= 2);
  }
  return record;
}

proto::ViewChange Change(uint32_t number, uint64_t at, const std::vector<uint32_t>& joined,
                         const std::vector<uint32_t>& left = {}) {
  proto::ViewChange change;
  change.set_number(number);
  change.set_at_clock(at);
  for (const uint32_t node : joined) change.add_joined(node);
  for (const uint32_t node : left) change.add_left(node);
  return change;
}

// Node 3 comes at clock 5, node 0 goes at 7, and 1 goes when 0 comes back, at 10.
Views Changed() {
  proto::JobRecord record = Record();
  *record.add_view_changes() = Change(4, 5, {3});
  *record.add_view_changes() = Change(6, 7, {}, {0});
  Views views = *Views::Of(record);
  EXPECT_TRUE(views.Add(Change(7, 10, {0}, {1})).ok());
  return views;
}

TEST(Views, AJobWithoutChangesHasTheNodesOfItsView) {
  const Views views = *Views::Of(Record());
  EXPECT_THAT(views.NodesAt(0), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_THAT(views.NodesAt(1'000'000), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_EQ(views.RanksAt(9), 4u);
  EXPECT_EQ(views.number(), 3u);
  EXPECT_EQ(views.RankStepsBefore(9), 36u);
  EXPECT_EQ(views.IndexOf(RankId(3), 9), 3u);
  EXPECT_FALSE(views.HasEver(NodeId(2)));
  EXPECT_EQ(views.LeavesAt(NodeId(2)), std::nullopt);
}

TEST(Views, ChangesHoldFromTheirClockOn) {
  const Views views = Changed();
  EXPECT_THAT(views.NodesAt(4), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_THAT(views.NodesAt(5), ElementsAre(NodeId(0), NodeId(1), NodeId(3)));
  EXPECT_THAT(views.NodesAt(6), ElementsAre(NodeId(0), NodeId(1), NodeId(3)));
  EXPECT_THAT(views.NodesAt(7), ElementsAre(NodeId(1), NodeId(3)));
  EXPECT_THAT(views.NodesAt(10), ElementsAre(NodeId(0), NodeId(3)));
  EXPECT_EQ(views.NumberAt(4), 3u);
  EXPECT_EQ(views.NumberAt(9), 6u);
  EXPECT_EQ(views.number(), 7u);
  EXPECT_EQ(views.newest_clock(), 10u);
}

TEST(Views, RanksThatMakeAStepAreCountedWithoutGaps) {
  const Views views = Changed();
  EXPECT_EQ(views.IndexOf(RankId(6), 4), std::nullopt);
  EXPECT_EQ(views.IndexOf(RankId(6), 5), 4u);
  EXPECT_EQ(views.IndexOf(RankId(7), 8), 3u);
  EXPECT_EQ(views.IndexOf(RankId(2), 8), 0u);
  EXPECT_EQ(views.IndexOf(RankId(0), 8), std::nullopt);
  EXPECT_EQ(views.IndexOf(RankId(8), 8), std::nullopt);
}

TEST(Views, StepsOfAllRanksAddUpOverTheViews) {
  const Views views = Changed();
  uint64_t steps = 0;
  for (uint64_t clock = 0; clock < 20; ++clock) {
    EXPECT_EQ(views.RankStepsBefore(clock), steps) << clock;
    steps += views.RanksAt(clock);
  }
  EXPECT_EQ(views.SamplesBefore(6, 10), (5 * 4 + 6) * 10u);
}

TEST(Views, SayWhenANodeHasComeAndGoes) {
  const Views views = Changed();
  EXPECT_EQ(views.JoinedAt(NodeId(3)), 5u);
  EXPECT_EQ(views.JoinedAt(NodeId(0)), 10u);
  EXPECT_EQ(views.JoinedAt(NodeId(1)), 0u);
  EXPECT_EQ(views.LeavesAt(NodeId(1)), 10u);
  EXPECT_EQ(views.LeavesAt(NodeId(0)), std::nullopt);
  EXPECT_TRUE(views.HasEver(NodeId(3)));
  EXPECT_FALSE(views.HasEver(NodeId(2)));
}

// Those who have made more steps than the checkpoint has are of no account.
TEST(Views, ChangesUpToTheCheckpointArePast) {
  proto::JobRecord record = Record();
  record.mutable_resume()->set_clock(7);
  *record.add_view_changes() = Change(4, 7, {3});
  *record.add_view_changes() = Change(5, 7, {2}, {3, 0});
  Views views = *Views::Of(record);
  EXPECT_THAT(views.NodesAt(7), ElementsAre(NodeId(1), NodeId(2)));
  EXPECT_EQ(views.RankStepsBefore(8), 7 * 4 + 4u);
  EXPECT_EQ(views.JoinedAt(NodeId(2)), 0u) << "it is there from the start";
  EXPECT_FALSE(views.HasEver(NodeId(3)));
  EXPECT_EQ(views.LeavesAt(NodeId(0)), 7u);
  EXPECT_TRUE(views.Add(Change(6, 9, {3})).ok());
  EXPECT_FALSE(views.Add(Change(7, 9, {0})).ok());
}

TEST(Views, AChangeThatIsKnownIsFineAndOneThatWasGivenUpHasANumberAlone) {
  Views views = Changed();
  EXPECT_TRUE(views.Add(Change(6, 7, {}, {0})).ok());
  EXPECT_TRUE(views.Add(Change(8, 0, {})).ok());
  EXPECT_EQ(views.number(), 8u);
  EXPECT_EQ(views.newest_clock(), 10u);
  EXPECT_FALSE(views.Add(Change(8, 12, {2})).ok());
}

struct Bad {
  proto::ViewChange change;
  std::string error;
};
class RefusedChange : public testing::TestWithParam<Bad> {};
TEST_P(RefusedChange, IsNamedAndChangesNothing) {
  Views views = Changed();
  const absl::Status status = views.Add(GetParam().change);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "change " + std::to_string(GetParam().change.number()) +
                                  " of the job's nodes: " + GetParam().error);
  EXPECT_EQ(views.number(), 7u);
  EXPECT_EQ(views.changes().size(), 3u);
  EXPECT_THAT(views.NodesAt(100), ElementsAre(NodeId(0), NodeId(3)));
}
INSTANTIATE_TEST_SUITE_P(
    All, RefusedChange,
    testing::Values(Bad{Change(6, 7, {}, {1}), "it is another one than before"},
                    Bad{Change(5, 11, {2}), "it comes after number 7"},
                    Bad{Change(8, 10, {2}), "it is at clock 10, after that at clock 10"},
                    Bad{Change(8, 11, {4}), "the job has no node 4"},
                    Bad{Change(8, 11, {2, 2}), "node 2 stands there twice"},
                    Bad{Change(8, 11, {3}), "node 3 is in the job already"},
                    Bad{Change(8, 11, {}, {2}), "node 2 is not in the job"},
                    Bad{Change(8, 11, {}, {0, 3}), "it leaves no node in the job"}));

TEST(Views, ARecordWithABadChangeIsRefused) {
  proto::JobRecord record = Record();
  *record.add_view_changes() = Change(4, 0, {3});
  EXPECT_THAT(Views::Of(record).status().message(),
              HasSubstr("change 4 of the job's nodes: it is at clock 0"));
}

}  // namespace
}  // namespace strata
