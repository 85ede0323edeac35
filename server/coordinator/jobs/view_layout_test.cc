#include "server/coordinator/jobs/view_layout.h"

#include <vector>

#include "common/job/views.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RankBlock> Blocks(uint32_t count, uint32_t ranks = 2) {
  std::vector<RankBlock> blocks;
  for (uint32_t i = 0; i < count; ++i) blocks.push_back({"w", i * ranks, ranks});
  return blocks;
}

// 2 ranks on each node, 2 nodes to begin with, 4 at most.
proto::JobRecord Record() {
  proto::JobRecord record;
  record.set_job_id(9);
  record.set_attempt(1);
  proto::Job* const job = record.mutable_job();
  job->set_ranks(4);
  job->set_ranks_per_node(2);
  job->set_ranks_min(2);
  job->set_ranks_max(8);
  return record;
}

std::vector<NodeId> NodesAt(const proto::JobRecord& record, uint64_t clock) {
  return Views::Of(record)->NodesAt(clock);
}

// The record of a job like Record that two more nodes have joined, at steps 10 and 30.
proto::JobRecord Earlier() {
  proto::JobRecord from = Record();
  LayOutNodes(Blocks(2), {}, &from);
  for (const uint32_t node : {2, 3}) {
    proto::ViewChange* const change = from.add_view_changes();
    change->set_number(node);
    change->set_at_clock(node == 2 ? 10 : 30);
    change->add_joined(node);
  }
  return from;
}

TEST(LayOutNodes, AJobWhoseNodesStayHasThoseThatBegin) {
  proto::JobRecord record;
  LayOutNodes({{"a", 0, 3}, {"b", 3, 1}}, {}, &record);
  ASSERT_EQ(record.view().nodes_size(), 2);
  EXPECT_EQ(record.view().nodes(1).first_rank(), 3u);
  EXPECT_EQ(record.view().nodes(1).ranks(), 1u);
  EXPECT_EQ(record.view().number(), 1u);
}

TEST(LayOutNodes, OthersHaveAllPlaces) {
  proto::JobRecord record = Record();
  LayOutNodes(Blocks(2), {}, &record);
  ASSERT_EQ(record.view().nodes_size(), 4);
  EXPECT_EQ(record.view().nodes(3).first_rank(), 6u);
  EXPECT_THAT(NodesAt(record, 0), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_EQ(HighestViewNumber(record), 1u);
}

TEST(LayOutNodes, AJobThatGoesOnKnowsWhoMadeTheStepsBefore) {
  proto::JobRecord record = Record();
  record.mutable_resume()->set_clock(20);
  LayOutNodes(Blocks(2), Earlier(), &record);
  EXPECT_THAT(NodesAt(record, 20), ElementsAre(NodeId(0), NodeId(1)));
  EXPECT_EQ(Views::Of(record)->RankStepsBefore(20), 10 * 4 + 10 * 6u);
  ASSERT_EQ(record.view_changes_size(), 2) << "that of step 30 never was";
  EXPECT_EQ(record.view_changes(1).at_clock(), 20u);
  EXPECT_EQ(record.view_changes(1).job_id(), 9u);
  EXPECT_EQ(record.view_changes(1).attempt(), 1u);
  EXPECT_GT(HighestViewNumber(record), record.view_changes(0).number());
}

TEST(LayOutNodes, WhereTheSameNodesGoOnNothingChanges) {
  proto::JobRecord record = Record();
  record.mutable_resume()->set_clock(20);
  LayOutNodes(Blocks(3), Earlier(), &record);
  EXPECT_EQ(record.view_changes_size(), 1);
  EXPECT_THAT(NodesAt(record, 20), ElementsAre(NodeId(0), NodeId(1), NodeId(2)));
}

TEST(LayOutNodes, AJobThatGoesOnTwiceKnowsItAll) {
  proto::JobRecord second = Record();
  second.mutable_resume()->set_clock(20);
  LayOutNodes(Blocks(1), Earlier(), &second);
  proto::JobRecord third = Record();
  third.mutable_resume()->set_clock(25);
  LayOutNodes(Blocks(4), second, &third);
  EXPECT_EQ(Views::Of(third)->RankStepsBefore(25), 10 * 4 + 10 * 6 + 5 * 2u);
  EXPECT_EQ(NodesAt(third, 25).size(), 4u);
}

TEST(LayOutNodes, AJobWhoseNodesStayedMayGoOnWithNodesThatJoin) {
  proto::JobRecord from;
  from.mutable_job()->set_ranks(4);
  LayOutNodes(Blocks(1, 4), {}, &from);
  proto::JobRecord record = Record();
  record.mutable_resume()->set_clock(20);
  LayOutNodes(Blocks(2), from, &record);
  EXPECT_THAT(record.view_changes(), IsEmpty());
  EXPECT_EQ(Views::Of(record)->RankStepsBefore(20), 20 * 4u);
}

// Calls LayOutNodes's check on a changed Earlier record.
absl::Status Checked(void (*change)(proto::JobRecord* from), uint64_t clock = 20) {
  proto::JobRecord from = Earlier(), record = Record();
  change(&from);
  record.mutable_resume()->set_clock(clock);
  return CheckHistory(from, record);
}

TEST(CheckHistory, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(Checked([](proto::JobRecord*) {}).ok());
  EXPECT_EQ(Checked([](proto::JobRecord* from) { from->mutable_view_changes(0)->add_joined(9); }),
            absl::InvalidArgumentError("change 2 of the job's nodes: the job has no node 9"));
  EXPECT_EQ(Checked([](proto::JobRecord* from) { from->mutable_view_changes(0)->set_number(~0u); }),
            absl::InvalidArgumentError(
                "change 4294967295 of the job's nodes: at most 1073741824 are possible"));
  EXPECT_EQ(
      Checked([](proto::JobRecord*) {}, 0),
      absl::InvalidArgumentError("the checkpoint is of clock 0, before which no node trains"));
  EXPECT_TRUE(
      Checked([](proto::JobRecord* from) { from->mutable_view_changes(1)->add_joined(9); }).ok())
      << "that of step 30 never was";
}

}  // namespace
}  // namespace strata::server
