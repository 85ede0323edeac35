// Jobs that go on from a checkpoint, as the trainer makes them.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/image/safetensors.h"
#include "training/trainer/recording_client.h"
#include "training/trainer/trainer.h"

namespace strata::worker {
namespace {

constexpr char kSmall[] =
    "name: 'small' seed: 1 epochs: 2 model { zoo: 'mlp' } "
    "data { batch_per_rank: 32 synthetic { height: 8 width: 8 train_samples: 330 "
    "test_samples: 100 } } optimizer { sgd {} } "
    "schedule { base_lr: 0.02 constant {} } metrics { every_steps: 4 } ";

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.run_dir = ::testing::TempDir() + "/resume." +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.run_dir);
    std::filesystem::create_directories(options_.run_dir);
  }
  void TearDown() override { std::filesystem::remove_all(options_.run_dir); }

  absl::StatusOr<TrainingOutcome> Train(const std::string& job) {
    options_.job.Clear();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(job, &options_.job));
    client_ = std::make_unique<RecordingClient>(job, ::testing::TempDir());
    client_->keep_at_step = keep_at_step_;
    client_->goes_on_at = goes_on_at_;
    client_->begins_with = begins_with_;
    client_->states.saved = saved_;
    return RunTrainer(options_, *client_);
  }
  std::string Read(const std::string& name) {
    std::ifstream file(options_.run_dir + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TrainerOptions options_;
  // See RecordingClient.
  int keep_at_step_ = -1;
  uint64_t goes_on_at_ = 0;
  std::vector<float> begins_with_;
  std::string saved_;
  std::unique_ptr<RecordingClient> client_;
};

// What a run says of its steps from one on: ends of windows, what was measured there, hashes.
struct Course {
  std::vector<uint64_t> window_ends;
  std::vector<std::pair<uint64_t, double>> measured;
  std::vector<std::string> hashes;

  Course(const std::vector<client::Report>& reports, const std::string& hash_lines, uint64_t from) {
    for (const client::Report& report : reports) {
      if (report.end_step < from) continue;
      if (report.end_step > from) window_ends.push_back(report.end_step);
      if (report.has_test) measured.emplace_back(report.end_step, report.test_loss);
    }
    hashes = absl::StrSplit(hash_lines, '\n');
    std::erase_if(hashes, [from](const std::string& line) {
      uint64_t step = from;
      return absl::SimpleAtoi(line.substr(0, line.find(' ')), &step) && step < from;
    });
  }
};

TEST_F(ResumeTest, AJobThatGoesOnMakesTheStepsWindowsAndMeasurementsOfAnUndisturbedOne) {
  const std::string job =
      std::string(kSmall) + "debug { hash_weights: true } evaluation { every_steps: 7 } ";
  for (const int first : {1, 7, 10, 12, 13, 19}) {
    goes_on_at_ = 0;
    begins_with_.clear();
    keep_at_step_ = first;
    ASSERT_TRUE(Train(job).ok());
    const Course whole(client_->reports, Read("weights.node-0.hashes"), first);
    ASSERT_EQ(whole.hashes.size(), 20u - first + 2);
    goes_on_at_ = first;
    begins_with_ = client_->kept;
    const auto outcome = Train(job);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const Course rest(client_->reports, Read("weights.node-0.hashes"), 0);
    EXPECT_EQ(rest.hashes, whole.hashes) << "from step " << first;
    EXPECT_EQ(rest.measured, whole.measured) << "from step " << first;
    std::vector<uint64_t> ends = rest.window_ends;
    std::erase(ends, static_cast<uint64_t>(first));  // where it goes on
    EXPECT_EQ(ends, whole.window_ends) << "from step " << first;
    EXPECT_EQ(client_->reports[0].first_step, static_cast<uint64_t>(first));
    EXPECT_EQ(outcome->steps, 20u - first);
    EXPECT_EQ(outcome->samples, 32 * (20u - first));
  }
}

// Weights of before the checkpoint are measured after training, too, and none twice.
TEST_F(ResumeTest, WhatIsMeasuredAfterTrainingIsNotLost) {
  const std::string job = std::string(kSmall) + "evaluation { every_steps: 3 deferred: true } ";
  for (const int first : {2, 3, 7, 12, 19}) {
    goes_on_at_ = 0;
    begins_with_.clear();
    keep_at_step_ = first;
    ASSERT_TRUE(Train(job).ok());
    EXPECT_TRUE(client_->facts.keeps_state);
    const Course whole(client_->reports, "", 0);
    ASSERT_EQ(whole.measured.size(), 7u);
    EXPECT_NE(std::count(whole.window_ends.begin(), whole.window_ends.end(), first), 0)
        << "a checkpoint is of whole windows";
    goes_on_at_ = first;
    begins_with_ = client_->kept;
    saved_ = client_->states.given;
    ASSERT_TRUE(Train(job).ok());
    EXPECT_EQ(Course(client_->reports, "", 0).measured, whole.measured) << "from step " << first;
  }
  saved_.pop_back();
  EXPECT_EQ(Train(job).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ResumeTest, AJobThatHasMadeAllItsStepsSavesTheFinalModelAndMeasuresIt) {
  keep_at_step_ = 19;
  ASSERT_TRUE(Train(kSmall).ok());
  begins_with_ = client_->kept;
  for (const uint64_t first : {20, 23}) {
    goes_on_at_ = first;
    const auto outcome = Train(kSmall);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->steps, 0u);
    EXPECT_GE(outcome->test_accuracy, 0);
    EXPECT_EQ(client_->steps, 0);
    ASSERT_EQ(client_->reports.size(), 2u);
    EXPECT_EQ(client_->reports[0].end_step, first);
    EXPECT_FALSE(client_->reports[0].final);
    EXPECT_TRUE(client_->reports[1].final);
    EXPECT_TRUE(client_->reports[1].has_test);
    EXPECT_EQ(client_->reports[1].end_step, first);
    const auto model = ReadSafetensors(options_.run_dir + "/model.safetensors");
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(absl::MakeConstSpan(model->tensors.back().values),
              absl::MakeConstSpan(begins_with_).first(10));
  }
}

constexpr char kCnn[] =
    "name: 't' max_steps: 5 data { batch_per_rank: 8 synthetic { height: 8 width: 8 "
    "train_samples: 64 test_samples: 16 } } optimizer { sgd {} } "
    "schedule { base_lr: 0.01 constant {} } metrics { every_steps: 1 } ";

TEST_F(ResumeTest, KeepsStateOfItsOwnWhereNotAllIsTheJobs) {
  ASSERT_TRUE(Train(std::string(kSmall) + "max_steps: 1").ok());
  EXPECT_TRUE(client_->facts.can_resume);
  EXPECT_FALSE(client_->facts.keeps_state);
  ASSERT_TRUE(Train(std::string(kCnn) + "model { zoo: 'cnn' }").ok());
  EXPECT_TRUE(client_->facts.can_resume);
  EXPECT_TRUE(client_->facts.keeps_state);
  ASSERT_TRUE(Train(std::string(kCnn) + "model { zoo: 'cnn' batch_norm: LAST_BATCH }").ok());
  EXPECT_TRUE(client_->facts.can_resume);
  EXPECT_FALSE(client_->facts.keeps_state);
}

// Only by them does what is measured differ.
TEST_F(ResumeTest, RunningStatisticsGoOnAsTheCheckpointHasThem) {
  const std::string job = std::string(kCnn) + "model { zoo: 'cnn' }";
  for (const int first : {3, 5}) {
    goes_on_at_ = 0;
    begins_with_.clear();
    saved_.clear();
    keep_at_step_ = first;
    const auto whole = Train(job);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const std::string model = Read("model.safetensors");
    saved_ = client_->states.given;
    ASSERT_FALSE(saved_.empty());
    begins_with_ = first == 5 ? client_->last : client_->kept;
    goes_on_at_ = first;
    const auto rest = Train(job);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_EQ(Read("model.safetensors"), model) << "from step " << first;
    EXPECT_EQ(rest->test_accuracy, whole->test_accuracy);
    saved_.pop_back();
    EXPECT_EQ(Train(job).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strata::worker
