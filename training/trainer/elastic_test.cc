// Jobs whose nodes come and go, as the trainer makes them.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "training/trainer/recording_client.h"
#include "training/trainer/trainer.h"

namespace strata::worker {
namespace {

using client::StepRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// An epoch has 10 batches.
constexpr char kSmall[] =
    "name: 'small' seed: 1 model { zoo: 'mlp' } "
    "data { batch_per_rank: 32 synthetic { height: 8 width: 8 train_samples: 330 "
    "test_samples: 100 } } optimizer { sgd {} } schedule { base_lr: 0.02 constant {} } "
    "metrics { every_steps: 4 } debug { hash_weights: true } ";

using MadeBy = std::function<StepRanks(uint64_t step)>;

// Up to step `at` the first one makes the steps, from then on the second one, counted on.
MadeBy ChangeAt(uint64_t at, const StepRanks& first, const StepRanks& second) {
  return [=](uint64_t step) {
    StepRanks by = step < at ? first : second;
    const uint64_t earlier = step < at ? step : at;
    by.rank_steps_before = earlier * first.ranks + (step - earlier) * second.ranks;
    return by;
  };
}

constexpr StepRanks kGone = {.makes_it = false, .rank = 0, .ranks = 1};

using Window = std::pair<uint64_t, uint64_t>;

class ElasticTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.run_dir = ::testing::TempDir() + "/elastic." +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.run_dir);
    std::filesystem::create_directories(options_.run_dir);
  }
  void TearDown() override { std::filesystem::remove_all(options_.run_dir); }

  // As the rank of this number, from step `first` on. The job is one of up to two ranks.
  absl::StatusOr<TrainingOutcome> Train(const MadeBy& made_by, uint32_t rank = 0,
                                        uint64_t first = 0,
                                        const std::string& limit = "epochs: 2 ") {
    const std::string job = kSmall + limit;
    options_.job.Clear();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(job + "ranks_max: 2 ranks_min: 1",
                                                              &options_.job));
    client_ = std::make_unique<RecordingClient>(job, ::testing::TempDir());
    client_->made_by = made_by;
    client_->as_rank = rank;
    client_->goes_on_at = first;
    client_->begins_with = begins_with_;
    client_->keep_at_step = keep_at_step_;
    return RunTrainer(options_, *client_);
  }
  std::string Read(const std::string& name) {
    std::ifstream file(options_.run_dir + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool SavedModel() { return std::filesystem::exists(options_.run_dir + "/model.safetensors"); }

  // Of the reports that have steps.
  std::vector<Window> Windows() {
    std::vector<Window> windows;
    for (const client::Report& report : client_->reports) {
      if (report.end_step == report.first_step) continue;
      windows.emplace_back(report.first_step, report.end_step);
      EXPECT_EQ(report.samples, 32 * (report.end_step - report.first_step));
    }
    return windows;
  }
  std::vector<uint64_t> Measured() {
    std::vector<uint64_t> measured;
    for (const client::Report& report : client_->reports) {
      if (report.has_test) measured.push_back(report.end_step);
    }
    return measured;
  }
  int Finals() {
    int finals = 0;
    for (const client::Report& report : client_->reports) finals += report.final;
    return finals;
  }

  TrainerOptions options_;
  // See RecordingClient.
  std::vector<float> begins_with_;
  int keep_at_step_ = -1;
  std::unique_ptr<RecordingClient> client_;
};

TEST_F(ElasticTest, EpochsAreOfSamplesHoweverManyRanksUseThem) {
  const auto outcome = Train(ChangeAt(4, {.ranks = 1}, {.ranks = 2}));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, 12u);
  EXPECT_EQ(outcome->samples, 12 * 32u);
  // Batches used: 4 by step 4, 10 by step 7, 20 by step 12.
  EXPECT_THAT(Windows(), ElementsAre(Window(0, 4), Window(4, 7), Window(7, 8), Window(8, 12)));
  EXPECT_THAT(Measured(), ElementsAre(7, 12));
  EXPECT_EQ(Finals(), 1);
  EXPECT_EQ(client_->facts.samples_per_epoch, 320u);
  EXPECT_EQ(client_->facts.total_steps, 0u) << "it is not known";
  EXPECT_TRUE(SavedModel());
}

TEST_F(ElasticTest, WhoDiesWithTheLastStepsLeavesTheEndToTheNextOne) {
  const MadeBy first_dies = [this](uint64_t step) {
    const bool has_died = client_->finished && step == 9;
    return StepRanks{.rank = has_died ? 0u : 1u, .ranks = has_died ? 1u : 2u};
  };
  auto outcome = Train(first_dies, 1, 0, "max_steps: 9 on_loss: DROP ");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(Measured(), ElementsAre(9));
  EXPECT_EQ(Finals(), 1);
  EXPECT_TRUE(SavedModel());

  std::filesystem::remove(options_.run_dir + "/model.safetensors");
  outcome = Train(first_dies, 1, 0, "max_steps: 9 ");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(SavedModel()) << "where nodes leave by plan, the one that made the step does it";
}

TEST_F(ElasticTest, AJobOfStepsGoesToTheSameOne) {
  const auto outcome = Train(ChangeAt(4, {.ranks = 1}, {.ranks = 2}), 0, 0, "max_steps: 9 ");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, 9u);
  EXPECT_EQ(client_->facts.total_steps, 9u);
  EXPECT_THAT(Measured(), ElementsAre(7, 9));
}

TEST_F(ElasticTest, WithoutChangesAllIsAsInAnyJob) {
  ASSERT_TRUE(Train(nullptr).ok());
  const std::string hashes = Read("weights.node-0.hashes");
  const std::vector<Window> windows = Windows();
  ASSERT_TRUE(Train(ChangeAt(99, {.ranks = 1}, {.ranks = 1})).ok());
  EXPECT_EQ(Read("weights.node-0.hashes"), hashes);
  EXPECT_EQ(Windows(), windows);
}

TEST_F(ElasticTest, ARankUsesOtherSamplesOnceThereIsAnotherOne) {
  ASSERT_TRUE(Train(nullptr).ok());
  const std::string alone = Read("weights.node-0.hashes");
  ASSERT_TRUE(Train(ChangeAt(4, {.ranks = 1}, {.ranks = 2})).ok());
  const std::string joined = Read("weights.node-0.hashes");
  // Rank 0 goes on with batch 4; from step 5 on, which begins with batch 6, all differs.
  const size_t same = joined.find("\n6 ") + 1;
  EXPECT_EQ(joined.substr(0, same), alone.substr(0, same));
  EXPECT_NE(joined.substr(same, 20), alone.substr(same, 20));
}

TEST_F(ElasticTest, ARankThatLeavesReportsItsStepsAndNoFinalModel) {
  const auto outcome = Train(ChangeAt(6, {.ranks = 1}, kGone));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(client_->finished);
  EXPECT_TRUE(client_->failures.empty());
  EXPECT_EQ(outcome->steps, 6u);
  EXPECT_EQ(outcome->samples, 6 * 32u);
  EXPECT_GT(outcome->loss, 0);
  EXPECT_EQ(outcome->test_accuracy, -1);
  EXPECT_THAT(Windows(), ElementsAre(Window(0, 4), Window(4, 6)));
  EXPECT_THAT(Measured(), ElementsAre());
  EXPECT_EQ(Finals(), 0);
  EXPECT_FALSE(SavedModel());
  EXPECT_THAT(Read("weights.node-0.hashes"), Not(HasSubstr("final")));
}

// Its last window, too, where that was to have a measurement.
TEST_F(ElasticTest, ARankThatLeavesAtTheEndOfAnEpochLeavesTheMeasurementToTheNextOne) {
  ASSERT_TRUE(Train(ChangeAt(5, {.rank = 0, .ranks = 2}, kGone)).ok());
  EXPECT_THAT(Windows(), ElementsAre(Window(0, 4), Window(4, 5)));
  EXPECT_THAT(Measured(), ElementsAre());
  // The one that is the first of those left.
  const auto outcome = Train(ChangeAt(5, {.rank = 1, .ranks = 2}, {.ranks = 1}), 1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(Windows(),
              ElementsAre(Window(0, 4), Window(4, 5), Window(5, 8), Window(8, 12), Window(12, 15)));
  EXPECT_THAT(Measured(), ElementsAre(5, 15));
  EXPECT_EQ(client_->reports[1].first_step, 4u) << "the window has the measurement, not one alone";
  EXPECT_TRUE(client_->reports[1].has_test);
  EXPECT_GE(outcome->test_accuracy, 0);
  EXPECT_TRUE(SavedModel());
}

TEST_F(ElasticTest, ARankThatIsNoLongerTheFirstMeasuresNothingMore) {
  const auto outcome = Train(ChangeAt(5, {.rank = 0, .ranks = 2}, {.rank = 1, .ranks = 3}), 1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(Windows(), ElementsAre(Window(0, 4), Window(4, 5), Window(5, 8), Window(8, 9)));
  EXPECT_THAT(Measured(), ElementsAre()) << "what step 5 begins with is measured by another one";
  EXPECT_EQ(Finals(), 1);
  EXPECT_FALSE(SavedModel());
}

TEST_F(ElasticTest, ARankThatJoinsBeginsWithItsFirstStep) {
  const MadeBy made_by = ChangeAt(5, {.makes_it = false, .ranks = 2}, {.rank = 0, .ranks = 4});
  const auto outcome = Train(made_by, 0, 5);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, 3u);
  EXPECT_EQ(client_->reports[0].first_step, 5u);
  EXPECT_EQ(client_->reports[0].end_step, 5u);
  EXPECT_FALSE(client_->reports[0].has_test);
  // Batches used: 10 by step 5, 20 after step 7.
  EXPECT_THAT(Windows(), ElementsAre(Window(5, 8)));
  EXPECT_THAT(Measured(), ElementsAre(5, 8));
  EXPECT_TRUE(SavedModel());
}

TEST_F(ElasticTest, ARankThatJoinsAJobThatIsOverMakesNoStep) {
  const MadeBy made_by = ChangeAt(12, {.makes_it = false, .ranks = 2}, {.rank = 2, .ranks = 3});
  const auto outcome = Train(made_by, 2, 12);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(client_->steps, 0);
  EXPECT_TRUE(client_->finished);
  EXPECT_EQ(Windows().size(), 0u);
  EXPECT_FALSE(SavedModel());
}

// Who would make the step after the last one has the final model.
TEST_F(ElasticTest, WhereTheFirstRankLeavesWithTheLastStepTheNextOneSavesTheModel) {
  ASSERT_TRUE(Train(ChangeAt(10, {.rank = 0, .ranks = 2}, kGone)).ok());
  EXPECT_EQ(client_->steps, 10);
  EXPECT_EQ(Finals(), 0);
  EXPECT_FALSE(SavedModel());
  ASSERT_TRUE(Train(ChangeAt(10, {.rank = 1, .ranks = 2}, {.ranks = 1}), 1).ok());
  EXPECT_EQ(client_->steps, 10);
  EXPECT_EQ(Finals(), 1);
  EXPECT_THAT(Measured(), ElementsAre(5 + 5));
  EXPECT_TRUE(SavedModel());
}

// The changes of nodes before its checkpoint are past, and count.
TEST_F(ElasticTest, AJobThatGoesOnFromACheckpointMakesTheStepsOfAnUndisturbedOne) {
  const MadeBy made_by = ChangeAt(4, {.ranks = 1}, {.ranks = 2});
  for (const int first : {2, 4, 5, 7, 11}) {
    SCOPED_TRACE(first);
    begins_with_.clear();
    keep_at_step_ = first;
    ASSERT_TRUE(Train(made_by).ok());
    const std::string whole = Read("weights.node-0.hashes");
    begins_with_ = client_->kept;
    keep_at_step_ = -1;
    ASSERT_TRUE(Train(made_by, 0, first).ok());
    const std::string rest = Read("weights.node-0.hashes");
    ASSERT_LT(rest.size(), whole.size());
    EXPECT_EQ(rest, whole.substr(whole.size() - rest.size()));
    EXPECT_EQ(Windows().back().second, 12u);
    EXPECT_EQ(Measured(), first > 7 ? std::vector<uint64_t>{12} : std::vector<uint64_t>({7, 12}));
  }
}

TEST_F(ElasticTest, EveryRankMayHaveToSaveTheModelSoEachFindsOutNowWhetherItCan) {
  options_.run_dir += "/missing";
  const auto outcome = Train(ChangeAt(4, {.rank = 1, .ranks = 2}, {.ranks = 1}), 1);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->steps, 0);
  EXPECT_THAT(client_->failures, ElementsAre(HasSubstr("cannot write to run directory")));
}

}  // namespace
}  // namespace strata::worker
