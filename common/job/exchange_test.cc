#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/job/all_reduce.h"
#include "common/job/job_keys.h"
#include "common/job/views.h"

namespace strata {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Nodes 0 to 3 with two ranks each, of which 2 and 3 may join later.
proto::JobRecord ViewsRecord() {
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

// Node 3 joins at clock 5, node 0 leaves at 7, and at 10 node 1 leaves and 0 comes back.
Views Changed() {
  proto::JobRecord record = ViewsRecord();
  *record.add_view_changes() = Change(4, 5, {3});
  *record.add_view_changes() = Change(6, 7, {}, {0});
  Views views = *Views::Of(record);
  EXPECT_TRUE(views.Add(Change(7, 10, {0}, {1})).ok());
  return views;
}

TEST(Views, AJobWithoutChangesHasTheNodesOfItsView) {
  const Views views = *Views::Of(ViewsRecord());
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

// Nodes that have made more steps than the checkpoint do not matter.
TEST(Views, ChangesUpToTheCheckpointArePast) {
  proto::JobRecord record = ViewsRecord();
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
  proto::JobRecord record = ViewsRecord();
  *record.add_view_changes() = Change(4, 0, {3});
  EXPECT_THAT(Views::Of(record).status().message(),
              HasSubstr("change 4 of the job's nodes: it is at clock 0"));
}

using proto::AllReduce;

TEST(AllReduce, TheCostIsLatencyAndBytesOfTheSlowestNode) {
  const LinkCost link{.latency_s = 0.001, .bytes_per_s = 1e6};
  const AllReduceWork four{.nodes = 4, .bytes = 1000000, .chunks = 1, .window = 2};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::RING, four, link), 6 * 0.001 + 1.5);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::HALVING_DOUBLING, four, link), 4 * 0.001 + 1.5);
  const AllReduceWork five{.nodes = 5, .bytes = 1000000, .chunks = 8, .window = 2};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::RING, five, link), 4 * 8 * 0.001 + 1.6);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::HALVING_DOUBLING, five, link), 4 * 6 * 0.001 + 3.5);
}

TEST(AllReduce, SmallOnesHalveAndLargeOnesOfOddNodesGoRound) {
  const LinkCost link{.latency_s = 0.0001, .bytes_per_s = 1e8};
  EXPECT_EQ(FasterAllReduce({.nodes = 8, .bytes = 4096}, link), AllReduce::HALVING_DOUBLING);
  EXPECT_EQ(FasterAllReduce({.nodes = 6, .bytes = 4096}, link), AllReduce::HALVING_DOUBLING);
  EXPECT_EQ(FasterAllReduce({.nodes = 6, .bytes = 1 << 26, .chunks = 16}, link), AllReduce::RING);
  EXPECT_EQ(FasterAllReduce({.nodes = 2, .bytes = 4096}, link), AllReduce::RING) << "equal";
}

TEST(AllReduce, ChunksFollowFromTheArena) {
  EXPECT_EQ(DefaultAllReduceChunkElements(1000, 4), 1000u);
  EXPECT_EQ(DefaultAllReduceChunkElements(256 << 10, 4), 16384u);             // 64 KiB
  EXPECT_EQ(DefaultAllReduceChunkElements(256 << 10, 8), 8 * 4096u);          // 16 KiB a node
  EXPECT_EQ(DefaultAllReduceChunkElements(4 << 20, 4), 64u << 10);            // a 64th
  EXPECT_EQ(DefaultAllReduceChunkElements(uint64_t{1} << 30, 4), 128 << 10);  // 512 KiB
}

TEST(Slices, CoverAChunkInWholeRuns) {
  for (const uint32_t elements : {1u, 16u, 17u, 1000u, 4096u}) {
    for (const uint32_t slices : {1u, 3u, 8u, 100u}) {
      EXPECT_EQ(SliceStart(elements, slices, 0), 0u);
      EXPECT_EQ(SliceStart(elements, slices, slices), elements);
      for (uint32_t k = 0; k < slices; ++k) {
        const uint32_t begin = SliceStart(elements, slices, k);
        const uint32_t end = SliceStart(elements, slices, k + 1);
        EXPECT_LE(begin, end);
        EXPECT_TRUE(begin == elements || begin % kSliceAlignment == 0);
        EXPECT_LE(end - begin, (elements / slices + 2 * kSliceAlignment));
      }
    }
  }
}

proto::JobRecord RingFormingRecord() {
  proto::JobRecord record;
  for (const uint32_t node : {0, 1, 2}) {
    proto::LogicalNode* const one = record.mutable_view()->add_nodes();
    one->set_node(node);
    one->set_first_rank(2 * node);
    one->set_ranks(2);
    record.mutable_ring()->add_endpoints("tcp://h:" + std::to_string(node));
  }
  record.mutable_view()->set_number(1);
  return record;
}

proto::FormRing Forming(std::initializer_list<uint32_t> nodes) {
  proto::FormRing forming;
  forming.mutable_change()->set_number(5);
  for (const uint32_t node : nodes) forming.add_nodes(node);
  return forming;
}

TEST(WithRing, KeepsTheNodesAndTheirAddresses) {
  const auto formed = WithRing(RingFormingRecord(), Forming({0, 2}), NodeId(2));
  ASSERT_TRUE(formed.ok()) << formed.status();
  EXPECT_EQ(formed->view().number(), 5u);
  ASSERT_EQ(formed->view().nodes_size(), 2);
  EXPECT_EQ(formed->view().nodes(1).node(), 2u);
  EXPECT_EQ(formed->view().nodes(1).first_rank(), 4u);
  ASSERT_EQ(formed->ring().endpoints_size(), 2);
  EXPECT_EQ(formed->ring().endpoints(1), "tcp://h:2");
}

TEST(WithRing, SaysWhatDoesNotFit) {
  const auto stranger = WithRing(RingFormingRecord(), Forming({0, 7}), NodeId(0));
  EXPECT_THAT(stranger.status().message(), HasSubstr("of which the job has 1"));
  const auto twice = WithRing(RingFormingRecord(), Forming({0, 0}), NodeId(0));
  EXPECT_THAT(twice.status().message(), HasSubstr("is to have 2 nodes, of which the job has 1"));
  const auto other = WithRing(RingFormingRecord(), Forming({0, 1}), NodeId(2));
  EXPECT_THAT(other.status().message(), HasSubstr("ring 5 does not have node 2"));
  const auto none = WithRing(RingFormingRecord(), Forming({}), NodeId(0));
  EXPECT_THAT(none.status().message(), HasSubstr("does not have node 0"));
  proto::JobRecord record = RingFormingRecord();
  record.mutable_ring()->clear_endpoints();
  EXPECT_FALSE(WithRing(record, Forming({0}), NodeId(0)).ok());
}

proto::JobRecord Record(proto::Job::Protection protection, size_t secret_bytes) {
  proto::JobRecord record;
  record.set_attempt(3);
  record.mutable_job()->set_protection(protection);
  record.set_secret(std::string(secret_bytes, 's'));
  return record;
}

TEST(KeysOf, ComeFromTheRecord) {
  const auto encrypted = KeysOf(Record(proto::Job::ENCRYPT, 32), "here");
  ASSERT_TRUE(encrypted.ok() && encrypted->has_value()) << encrypted.status();
  EXPECT_EQ((*encrypted)->protection, seal::Protection::kEncrypt);
  EXPECT_EQ((*encrypted)->attempt, 3u);
  EXPECT_EQ((*encrypted)->secret[31], std::byte{'s'});
  const auto is_signed = KeysOf(Record(proto::Job::SIGN, 32), "here");
  ASSERT_TRUE(is_signed.ok() && is_signed->has_value()) << is_signed.status();
  EXPECT_EQ((*is_signed)->protection, seal::Protection::kSign);
}

TEST(KeysOf, AJobWithoutProtectionHasNone) {
  for (const auto protection : {proto::Job::PLAIN, proto::Job::BY_CLUSTER}) {
    const auto keys = KeysOf(Record(protection, 0), "");
    ASSERT_TRUE(keys.ok()) << keys.status();
    EXPECT_FALSE(keys->has_value());
  }
}

TEST(KeysOf, ARecordThatContradictsItselfIsRefused) {
  EXPECT_EQ(KeysOf(Record(proto::Job::ENCRYPT, 0), "").status(),
            absl::InvalidArgumentError("protection: ENCRYPT with a secret of 0 bytes"));
  EXPECT_EQ(KeysOf(Record(proto::Job::SIGN, 31), "").status(),
            absl::InvalidArgumentError("protection: SIGN with a secret of 31 bytes"));
  EXPECT_EQ(KeysOf(Record(proto::Job::PLAIN, 32), "").status(),
            absl::InvalidArgumentError("protection: PLAIN with a secret of 32 bytes"));
}

}  // namespace
}  // namespace strata
