// The batches of all ranks of jobs whose nodes come and go at random: each sample is used once an
// epoch.
#include "training/trainer/step_batches.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "common/job/views.h"
#include "proto/record.pb.h"
#include "training/data/batch_source.h"
#include "training/data/dataset.h"

namespace strata::training {
namespace {

using client::StepRanks;

constexpr uint32_t kNodes = 4, kBatch = 3, kSamples = 100;
constexpr uint64_t kEpochs = 3;

// Samples of one pixel whose labels are their numbers.
Dataset Numbered() {
  Dataset data;
  data.channels = data.height = data.width = 1;
  data.classes = kSamples;
  for (uint32_t i = 0; i < kSamples; ++i) {
    data.pixels.push_back(static_cast<uint8_t>(i));
    data.labels.push_back(static_cast<uint16_t>(i));
  }
  return data;
}

// A job of random nodes, which come and go at random steps.
Views RandomViews(std::mt19937* random) {
  proto::JobRecord record;
  uint32_t first_rank = 0;
  std::vector<bool> has;
  for (uint32_t node = 0; node < kNodes; ++node) {
    proto::LogicalNode* const one = record.mutable_view()->add_nodes();
    one->set_node(node);
    one->set_first_rank(first_rank);
    one->set_ranks(1 + (*random)() % 3);
    has.push_back(node == 1 || (*random)() % 2 == 0);
    one->set_absent(!has.back());
    first_rank += one->ranks();
  }
  uint64_t clock = 0;
  for (uint32_t number = 1; number < 8; ++number) {
    proto::ViewChange change;
    change.set_number(number);
    change.set_at_clock(clock += 1 + (*random)() % 6);
    std::vector<bool> next = has;
    for (uint32_t node = 0; node < kNodes; ++node) {
      if ((*random)() % 2 == 0) next[node] = !next[node];
    }
    if (next == std::vector<bool>(kNodes, false) || next == has) continue;
    for (uint32_t node = 0; node < kNodes; ++node) {
      if (next[node] && !has[node]) change.add_joined(node);
      if (!next[node] && has[node]) change.add_left(node);
    }
    has = next;
    *record.add_view_changes() = change;
  }
  const absl::StatusOr<Views> views = Views::Of(record);
  EXPECT_TRUE(views.ok()) << views.status();
  return *views;
}

class RankViews final : public client::ClientViews {
 public:
  RankViews(const Views& views, const ViewPlan& plan, uint32_t rank, std::mt19937* random)
      : views_(views), plan_(plan), rank_(rank), random_(*random) {}

  absl::StatusOr<StepRanks> At(uint64_t step) override {
    const std::optional<uint32_t> index = views_.IndexOf(RankId(rank_), step);
    return StepRanks{.makes_it = index.has_value(),
                     .rank = index.value_or(0),
                     .ranks = views_.RanksAt(step),
                     .rank_steps_before = views_.RankStepsBefore(step)};
  }
  absl::StatusOr<std::optional<StepRanks>> AtIfKnown(uint64_t step) override {
    EXPECT_FALSE(plan_.IsOver(step, *At(step))) << "it is no step of the job";
    if (random_() % 3 == 0) return std::nullopt;
    return *At(step);
  }

 private:
  const Views& views_;
  const ViewPlan& plan_;
  const uint32_t rank_;
  std::mt19937& random_;
};

// The batches that all ranks have used, by number, and which rank uses each.
class Job {
 public:
  explicit Job(uint32_t seed) : random_(seed), views_(RandomViews(&random_)) {
    proto::Job job;
    job.mutable_data()->set_batch_per_rank(kBatch);
    job.set_epochs(kEpochs);
    plan_ = *ViewPlan::Make(job, kSamples, 1 + random_() % 5);
  }

  // Has the rank's processes make all of its steps.
  void Train(uint32_t rank) {
    RankViews views(views_, plan_, rank, &random_);
    uint64_t step = 0;
    while (!plan_.IsOver(step, *views.At(step))) {
      if (views.At(step)->makes_it) {
        step = MakeSteps(step, &views);
      } else {
        ++step;
      }
    }
  }

  const ViewPlan& plan() const { return plan_; }
  const std::map<uint64_t, std::vector<uint16_t>>& used() const { return used_; }
  int ahead() const { return ahead_; }

 private:
  // A process makes them, from `step` on; returns the one that it does not make.
  uint64_t MakeSteps(uint64_t step, RankViews* views) {
    BatchSource source(&data_, {}, {7, kBatch, plan_.batches_per_epoch()});
    StepBatches batches(&source, plan_, views);
    source.Start();
    StepRanks by = *views->At(step);
    while (by.makes_it && !plan_.IsOver(step, by)) {
      const Batch& batch = **batches.Take(step, by);
      const uint64_t number = by.rank_steps_before + by.rank;
      EXPECT_TRUE(used_.emplace(number, batch.labels).second) << "batch " << number;
      if (random_() % 2 == 0) ahead_ += *batches.TakeAhead(step, by) != nullptr;
      by = *views->At(++step);
    }
    return step;
  }

  std::mt19937 random_;
  const Dataset data_ = Numbered();
  const Views views_;
  ViewPlan plan_;
  std::map<uint64_t, std::vector<uint16_t>> used_;
  int ahead_ = 0;
};

TEST(StepBatches, EachSampleIsUsedOnceAnEpochWhateverNodesComeAndGo) {
  int ahead = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Job job(seed);
    for (uint32_t rank = 0; rank < 3 * kNodes; ++rank) job.Train(rank);
    const uint64_t per_epoch = job.plan().batches_per_epoch();
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<uint32_t> order = EpochOrder(kSamples, 7, epoch);
      std::set<uint16_t> samples;
      for (uint64_t index = 0; index < per_epoch; ++index) {
        const auto batch = job.used().find(epoch * per_epoch + index);
        ASSERT_NE(batch, job.used().end()) << "epoch " << epoch << " batch " << index;
        const auto slice = BatchSlice(order, index, kBatch);
        ASSERT_EQ(batch->second, std::vector<uint16_t>(slice.begin(), slice.end()));
        samples.insert(batch->second.begin(), batch->second.end());
      }
      ASSERT_EQ(samples.size(), per_epoch * kBatch);
    }
    ahead += job.ahead();
  }
  EXPECT_GT(ahead, 500);
}

class LostViews final : public client::ClientViews {
 public:
  absl::StatusOr<StepRanks> At(uint64_t) override { return StepRanks(); }
  absl::StatusOr<std::optional<StepRanks>> AtIfKnown(uint64_t) override {
    return absl::UnavailableError("the aggregator of node 0 is gone");
  }
};

TEST(StepBatches, AnErrorOfTheViewsIsReturned) {
  proto::Job job;
  job.mutable_data()->set_batch_per_rank(kBatch);
  const ViewPlan plan = *ViewPlan::Make(job, kSamples, 1);
  const Dataset data = Numbered();
  BatchSource source(&data, {}, {7, kBatch, plan.batches_per_epoch()});
  source.Start();
  LostViews views;
  StepBatches batches(&source, plan, &views);
  EXPECT_EQ(batches.Take(0, {}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(batches.TakeAhead(0, {}).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace strata::training
