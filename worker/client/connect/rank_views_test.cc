#include "worker/client/connect/rank_views.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::client {
namespace {

// Of a rank that has heard of some changes while it waited for the others' end.
class LateLink final : public RankLink {
 public:
  absl::StatusOr<ArenaView> Allocate(const proto::Layout&) override { return ArenaView(); }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override { return RunFacts(); }
  absl::StatusOr<bool> LearnViews(uint64_t, bool, Views*) override {
    ++asked;
    return true;
  }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return absl::OkStatus(); }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return absl::OkStatus(); }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t) override { return absl::OkStatus(); }
  absl::Status Finish(uint64_t) override { return absl::OkStatus(); }
  std::vector<proto::ViewChange> TakeLateChanges() override { return std::exchange(late, {}); }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  std::vector<proto::ViewChange> late;
  int asked = 0;
};

// Rank 2, the first one of node 1, of three nodes with two ranks each.
class RankViewsTest : public testing::Test {
 protected:
  RankViewsTest() {
    launch_.set_rank(2);
    proto::JobRecord* const record = launch_.mutable_record();
    record->mutable_job()->set_ranks(6);
    record->mutable_job()->set_ranks_min(2);
    record->mutable_job()->set_on_loss(proto::Job::DROP);
    record->mutable_view()->set_number(1);
    for (uint32_t node = 0; node < 3; ++node) {
      proto::LogicalNode* const of = record->mutable_view()->add_nodes();
      of->set_node(node);
      of->set_first_rank(2 * node);
      of->set_ranks(2);
    }
  }
  static proto::ViewChange Loses(uint32_t node, uint32_t number, uint64_t at_clock) {
    proto::ViewChange change;
    change.set_number(number);
    change.set_at_clock(at_clock);
    change.add_left(node);
    return change;
  }

  proto::Launch launch_;
  LateLink link_;
};

TEST_F(RankViewsTest, WhoDiesWithTheLastStepsIsNotAmongThoseThatEndTheJob) {
  RankViews views(launch_, &link_);
  ASSERT_TRUE(views.Begin({}).ok());
  EXPECT_EQ(views.At(40)->rank, 2u) << "node 0 is there when this is asked";
  link_.late = {Loses(0, 2, 41), Loses(2, 3, 45)};
  ASSERT_TRUE(views.End(40).ok());
  const int asked = link_.asked;
  const StepRanks left = *views.At(40);
  EXPECT_EQ(left.rank, 0u);
  EXPECT_EQ(left.ranks, 2u);
  EXPECT_TRUE(left.makes_it);
  EXPECT_EQ(views.At(39)->rank, 2u) << "steps that were made stay whose they were";
  EXPECT_EQ(link_.asked, asked) << "the aggregator may be gone";
}

TEST_F(RankViewsTest, WhoLeavesByPlanAfterTheLastStepEndsTheJobAsItsStepsWere) {
  launch_.mutable_record()->mutable_job()->clear_on_loss();
  RankViews views(launch_, &link_);
  ASSERT_TRUE(views.Begin({}).ok());
  link_.late = {Loses(0, 2, 41)};
  ASSERT_TRUE(views.End(40).ok());
  EXPECT_EQ(views.At(40)->rank, 2u);
}

TEST_F(RankViewsTest, ALateChangeThatFitsNoJobIsAnError) {
  RankViews views(launch_, &link_);
  ASSERT_TRUE(views.Begin({}).ok());
  link_.late = {Loses(7, 2, 41)};
  EXPECT_EQ(views.End(40).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::client
