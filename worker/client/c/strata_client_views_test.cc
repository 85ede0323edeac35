#include "worker/client/c/strata_client_views.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/job/views.h"
#include "gtest/gtest.h"
#include "proto/processes.pb.h"
#include "worker/client/c/client_calls.h"
#include "worker/client/connect/arena_client.h"
#include "worker/client/rank_link.h"
#include "worker/contract/agent_channel.h"

namespace strata::client {
namespace {

// The link of a rank that joins at step 3. Once `leaves_at` is set, its node leaves at that step.
class ChangingLink final : public RankLink {
 public:
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override {
    memory_.resize(2 * layout.elements());
    return ArenaView{absl::MakeSpan(memory_).subspan(0, layout.elements()),
                     absl::MakeSpan(memory_).subspan(layout.elements())};
  }
  absl::StatusOr<RunFacts> Start(const JobFacts&) override {
    RunFacts run{.chunk_elements = 4, .first_step = 3};
    proto::ViewChange joined;
    joined.set_number(1);
    joined.set_at_clock(3);
    joined.add_joined(1);
    run.view_changes.push_back(joined);
    return run;
  }
  absl::StatusOr<bool> LearnViews(uint64_t step, bool waits, Views* views) override {
    if (is_stopped) return absl::UnavailableError("the job is stopped");
    if (!waits && step >= unknown_from) return false;
    if (!leaves_at) return true;
    proto::ViewChange left;
    left.set_number(2);
    left.set_at_clock(*leaves_at);
    left.add_left(1);
    if (absl::Status status = views->Add(left); !status.ok()) return status;
    return true;
  }
  absl::Status BeginStep(uint64_t, uint32_t, float) override { return absl::OkStatus(); }
  absl::Status AwaitWeights(ChunkId, uint64_t) override { return absl::OkStatus(); }
  absl::Status Publish(absl::Span<const ChunkId>, uint64_t) override { return absl::OkStatus(); }
  absl::Status Finish(uint64_t steps) override {
    finished_after = steps;
    return absl::OkStatus();
  }
  absl::Status KeepWeights() override { return absl::OkStatus(); }
  proto::NodeCounters Counters() const override { return {}; }

  std::optional<uint64_t> leaves_at;
  uint64_t unknown_from = UINT64_MAX;
  bool is_stopped = false;
  uint64_t finished_after = 0;

 private:
  std::vector<float> memory_;
};

// Rank 3, the second one of node 1; nodes 0 and 2 also have two ranks each, and node 2 never joins.
class StrataClientViewsTest : public testing::Test {
 protected:
  StrataClientViewsTest() {
    proto::Launch launch;
    launch.set_rank(3);
    proto::JobRecord* const record = launch.mutable_record();
    record->mutable_job()->set_ranks(2);
    record->mutable_job()->set_ranks_min(2);
    record->mutable_job()->set_ranks_max(6);
    for (uint32_t node = 0; node < 3; ++node) {
      proto::LogicalNode* const of = record->mutable_view()->add_nodes();
      of->set_node(node);
      of->set_first_rank(2 * node);
      of->set_ranks(2);
      of->set_absent(node > 0);
    }
    auto link = std::make_unique<ChangingLink>();
    link_ = link.get();
    client_.launch = launch;
    client_.client =
        std::make_unique<ArenaClient>(launch, std::make_shared<AgentChannel>(-1), std::move(link));
  }

  void Start() {
    const strata_tensor tensor{.size = sizeof(strata_tensor), .name = "w", .lr_multiplier = 1};
    const strata_facts facts{.size = sizeof(strata_facts), .can_resume = 1};
    int32_t index = -1;
    ASSERT_EQ(strata_register(&client_, &tensor, &index), STRATA_OK);
    ASSERT_EQ(strata_start(&client_, &facts), STRATA_OK);
  }

  ChangingLink* link_ = nullptr;
  strata_client client_;
  strata_step_ranks ranks_{.size = sizeof(strata_step_ranks)};
};

TEST_F(StrataClientViewsTest, SayWhoMakesAStepAndEndTheStepsOfARankThatLeaves) {
  Start();
  ASSERT_EQ(strata_ranks_at(&client_, 3, &ranks_), STRATA_OK);
  EXPECT_NE(ranks_.makes_it, 0);
  EXPECT_EQ(ranks_.rank, 3u);
  EXPECT_EQ(ranks_.ranks, 4u);
  EXPECT_EQ(ranks_.rank_steps_before, 6u);
  ASSERT_EQ(strata_begin_step(&client_, 1), STRATA_OK);
  ASSERT_EQ(strata_finish_step(&client_), STRATA_OK);
  link_->leaves_at = 4;
  ASSERT_EQ(strata_ranks_at(&client_, 4, &ranks_), STRATA_OK);
  EXPECT_EQ(ranks_.makes_it, 0);
  EXPECT_EQ(ranks_.rank, 0u);
  EXPECT_EQ(ranks_.ranks, 2u);
  EXPECT_EQ(ranks_.rank_steps_before, 10u);
  EXPECT_EQ(strata_begin_step(&client_, 1), STRATA_NO_MORE_STEPS);
  EXPECT_STREQ(strata_error_text(), "rank 3 leaves the job before step 4: it is to call Finish");
  ASSERT_EQ(strata_finish(&client_), STRATA_OK);
  EXPECT_EQ(link_->finished_after, 4u);
}

TEST_F(StrataClientViewsTest, SayNothingOfAStepThatIsNotKnownYet) {
  Start();
  link_->unknown_from = 7;
  int known = -1;
  ASSERT_EQ(strata_ranks_at_if_known(&client_, 6, &known, &ranks_), STRATA_OK);
  EXPECT_EQ(known, 1);
  EXPECT_EQ(ranks_.rank_steps_before, 18u);
  ASSERT_EQ(strata_ranks_at_if_known(&client_, 7, &known, &ranks_), STRATA_OK);
  EXPECT_EQ(known, 0);
  EXPECT_EQ(ranks_.rank_steps_before, 18u);
}

TEST_F(StrataClientViewsTest, AreThereFromTheStartOn) {
  int known = -1;
  EXPECT_EQ(strata_ranks_at(&client_, 0, &ranks_), STRATA_FAILED_PRECONDITION);
  EXPECT_STREQ(strata_error_text(), "strata_ranks_at: before strata_start");
  EXPECT_EQ(strata_ranks_at_if_known(&client_, 0, &known, &ranks_), STRATA_FAILED_PRECONDITION);
  EXPECT_EQ(known, 0);
  Start();
  EXPECT_EQ(strata_ranks_at(&client_, 3, nullptr), STRATA_INVALID_ARGUMENT);
  EXPECT_STREQ(strata_error_text(), "strata_ranks_at: ranks: is null");
  EXPECT_EQ(strata_ranks_at_if_known(&client_, 3, nullptr, &ranks_), STRATA_INVALID_ARGUMENT);
  link_->is_stopped = true;
  EXPECT_EQ(strata_ranks_at(&client_, 3, &ranks_), STRATA_STOPPED);
  EXPECT_EQ(strata_ranks_at_if_known(&client_, 3, &known, &ranks_), STRATA_STOPPED);
}

// A program built with a header whose struct is shorter.
TEST_F(StrataClientViewsTest, WriteNoFieldThatTheCallerDoesNotHave) {
  Start();
  ranks_ = {.size = offsetof(strata_step_ranks, rank_steps_before), .rank_steps_before = 77};
  ASSERT_EQ(strata_ranks_at(&client_, 3, &ranks_), STRATA_OK);
  EXPECT_EQ(ranks_.size, offsetof(strata_step_ranks, rank_steps_before));
  EXPECT_EQ(ranks_.ranks, 4u);
  EXPECT_EQ(ranks_.rank_steps_before, 77u);
}

}  // namespace
}  // namespace strata::client
