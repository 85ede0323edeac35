#include "training/trainer/trainer.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/diverged.h"
#include "common/image/safetensors.h"
#include "training/nn/network/zoo.h"
#include "training/trainer/evaluator.h"
#include "training/trainer/recording_client.h"

namespace strata::training {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTrainerSmall[] =
    "name: 'small' seed: 1 epochs: 2 model { zoo: 'mlp' } "
    "data { batch_per_rank: 32 synthetic { height: 8 width: 8 train_samples: 330 "
    "test_samples: 100 } } optimizer { momentum_sgd { momentum: 0.9 } } "
    "schedule { base_lr: 0.02 constant {} } metrics { every_steps: 4 } ";

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.run_dir = ::testing::TempDir() + "/trainer." +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.run_dir);
    std::filesystem::create_directories(options_.run_dir);
  }
  void TearDown() override { std::filesystem::remove_all(options_.run_dir); }

  absl::StatusOr<TrainingOutcome> Train(const std::string& job) {
    options_.job.Clear();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(job, &options_.job));
    client_ = std::make_unique<RecordingClient>(job, ::testing::TempDir());
    client_->fail_at_step = fail_at_step_;
    return RunTrainer(options_, *client_);
  }
  void ExpectFailure(const std::string& job, absl::StatusCode code, const std::string& text) {
    auto outcome = Train(job);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.status().code(), code) << outcome.status();
    EXPECT_THAT(client_->failures, ElementsAre(HasSubstr(text)));
    EXPECT_THAT(client_->failures[0], ::testing::Not(HasSubstr("\n")));
    EXPECT_FALSE(std::filesystem::exists(options_.run_dir + "/model.safetensors"));
  }
  std::string Read(const std::string& name) {
    std::ifstream file(options_.run_dir + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TrainerOptions options_;
  int fail_at_step_ = -1;
  std::unique_ptr<RecordingClient> client_;
};

// An earlier program of the folder may have put one there for any process.
TEST_F(TrainerTest, FollowsNoLinkWhenItLooksWhetherItMayWrite) {
  const std::string elsewhere = options_.run_dir + "/elsewhere";
  const std::string link = options_.run_dir + "/.writable." + std::to_string(getpid());
  std::ofstream(elsewhere) << "of others";
  std::filesystem::create_symlink(elsewhere, link);
  EXPECT_TRUE(Train(kTrainerSmall).ok());
  EXPECT_EQ(Read("elsewhere"), "of others");
  EXPECT_FALSE(std::filesystem::is_symlink(link));
}

TEST_F(TrainerTest, MlpLearnsSyntheticData) {
  auto outcome = Train(
      "name: 't' seed: 3 epochs: 3 model { zoo: 'mlp' } data { batch_per_rank: 64 synthetic {} } "
      "optimizer { momentum_sgd { momentum: 0.9 } } schedule { base_lr: 0.02 constant {} }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(outcome->test_accuracy, 0.9);
  const auto& reports = client_->reports;
  EXPECT_LT(reports.back().loss_sum / reports.back().samples,
            0.3 * reports.front().loss_sum / reports.front().samples);
}

TEST_F(TrainerTest, CnnLearnsSyntheticData) {
  auto outcome = Train(
      "name: 't' seed: 3 epochs: 2 model { zoo: 'cnn' } data { batch_per_rank: 32 synthetic { "
      "channels: 3 height: 12 width: 10 classes: 4 train_samples: 512 test_samples: 200 } } "
      "optimizer { momentum_sgd { momentum: 0.9 } } schedule { base_lr: 0.01 constant {} }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(outcome->test_accuracy, 0.9);
}

TEST_F(TrainerTest, ResNet8LearnsSyntheticData) {
  auto outcome = Train(
      "name: 't' seed: 3 epochs: 2 model { zoo: 'resnet8' } data { batch_per_rank: 16 synthetic { "
      "height: 8 width: 8 classes: 4 train_samples: 512 test_samples: 200 } } "
      "optimizer { momentum_sgd { momentum: 0.9 } } schedule { base_lr: 0.05 constant {} }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(outcome->test_accuracy, 0.9);
}

TEST_F(TrainerTest, ResNet20LearnsSyntheticImageNet) {
  auto outcome = Train(
      "name: 't' seed: 3 max_steps: 30 model { zoo: 'resnet20' } data { batch_per_rank: 16 "
      "synthetic_imagenet { size: 16 classes: 4 train_samples: 512 test_samples: 200 } } "
      "optimizer { momentum_sgd { momentum: 0.9 } } schedule { base_lr: 0.05 constant {} }");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_GT(outcome->test_accuracy, 0.9);
}

TEST_F(TrainerTest, RegistersTensorsInTheOrderInWhichBackwardPublishesThem) {
  ASSERT_TRUE(Train(kTrainerSmall).ok());
  EXPECT_THAT(client_->names, ElementsAre("fc3.bias", "fc3.weight", "fc2.bias", "fc2.weight",
                                          "fc1.bias", "fc1.weight"));
  EXPECT_THAT(client_->published, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(client_->facts.samples_per_epoch, 320u);
  EXPECT_EQ(client_->facts.total_steps, 20u);
}

TEST_F(TrainerTest, ReportsWindowsThatEndAtEpochsAndTheLastOneIsFinal) {
  auto outcome = Train(kTrainerSmall);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, 20u);
  EXPECT_EQ(outcome->samples, 640u);
  std::vector<std::pair<uint64_t, uint64_t>> windows;
  std::vector<bool> tests;
  for (const client::Report& report : client_->reports) {
    windows.emplace_back(report.first_step, report.end_step);
    tests.push_back(report.has_test);
    EXPECT_EQ(report.samples, 32 * (report.end_step - report.first_step));
    EXPECT_GT(report.wall_s, 0);
    EXPECT_EQ(report.final, report.end_step == 20);
  }
  // Windows of 4 steps, epochs of 10.
  EXPECT_THAT(windows, ElementsAre(std::pair(0, 4), std::pair(4, 8), std::pair(8, 10),
                                   std::pair(10, 12), std::pair(12, 16), std::pair(16, 20)));
  EXPECT_THAT(tests, ElementsAre(false, false, true, false, false, true));
  EXPECT_TRUE(client_->finished);
  EXPECT_TRUE(client_->failures.empty());
}

TEST_F(TrainerTest, EvaluatesAfterSoManySteps) {
  ASSERT_TRUE(Train(std::string(kTrainerSmall) + "evaluation { every_steps: 7 }").ok());
  std::vector<uint64_t> tested;
  double trained_s = 0;
  for (const client::Report& report : client_->reports) {
    if (report.has_test) tested.push_back(report.end_step);
    EXPECT_GT(report.trained_s, trained_s);
    trained_s = report.trained_s;
  }
  EXPECT_THAT(tested, ElementsAre(7, 14, 20));
}

TEST_F(TrainerTest, DeferredEvaluationMeasuresTheSameWeightsAfterTheLastStep) {
  const std::string job =
      "name: 't' seed: 3 max_steps: 20 model { zoo: 'cnn' } data { "
      "batch_per_rank: 8 synthetic { height: 8 width: 8 } } evaluation { "
      "every_steps: 7 deferred: ";
  const auto scores = [&](const std::string& deferred) {
    EXPECT_TRUE(Train(job + deferred + " }").ok());
    std::vector<std::pair<uint64_t, double>> measured;
    for (const client::Report& report : client_->reports) {
      if (report.has_test) measured.emplace_back(report.end_step, report.test_loss);
    }
    return measured;
  };
  const auto at_once = scores("false");
  ASSERT_EQ(at_once.size(), 3);
  EXPECT_EQ(scores("true"), at_once);
  // Windows that end at 7, 14 and 20, and, just before the last of them, what was measured late.
  const auto& reports = client_->reports;
  ASSERT_EQ(reports.size(), 5);
  EXPECT_EQ(reports[1].end_step, 14);
  EXPECT_EQ(reports[2].first_step, 7);
  EXPECT_EQ(reports[2].end_step, 7);
  EXPECT_EQ(reports[2].samples, 0);
  EXPECT_GE(reports[2].trained_s, reports[0].trained_s);
  EXPECT_LE(reports[2].trained_s, reports[1].trained_s);
  EXPECT_TRUE(reports[4].final);
}

TEST_F(TrainerTest, MaxStepsEndsInTheMiddleOfAnEpoch) {
  auto outcome = Train(std::string(kTrainerSmall) + "max_steps: 13");
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->steps, 13u);
  EXPECT_EQ(client_->reports.back().end_step, 13u);
  EXPECT_TRUE(client_->reports.back().has_test);
}

TEST_F(TrainerTest, SavesTheModelWithItsBuffersInForwardOrder) {
  ASSERT_TRUE(Train("name: 'saved' seed: 1 max_steps: 2 model { zoo: 'cnn' } data { "
                    "batch_per_rank: 8 synthetic { height: 8 width: 8 train_samples: 64 } } "
                    "optimizer { sgd {} } schedule { base_lr: 0.01 constant {} }")
                  .ok());
  auto model = ReadSafetensors(options_.run_dir + "/model.safetensors");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->metadata["model"], "cnn");
  EXPECT_EQ(model->metadata["job"], "saved");
  std::vector<std::string> names;
  for (const SavedTensor& tensor : model->tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean",
                                 "bn1.running_var", "conv2.weight", "bn2.weight", "bn2.bias",
                                 "bn2.running_mean", "bn2.running_var", "fc1.weight", "fc1.bias",
                                 "fc2.weight", "fc2.bias"));
  EXPECT_NE(model->tensors[4].values[0], 1.0f);
  // The arena begins with the last layer's bias.
  EXPECT_EQ(absl::MakeConstSpan(model->tensors.back().values), client_->ReadWeights()->first(10));
}

TEST_F(TrainerTest, StatisticsOfTheLastBatchAreTensorsThatInferenceReads) {
  const std::string job =
      "name: 't' seed: 1 max_steps: 3 data { batch_per_rank: 8 synthetic { height: 8 width: 8 "
      "train_samples: 64 } } optimizer { sgd {} } schedule { base_lr: 0.01 constant {} } ";
  ASSERT_TRUE(Train(job + "model { zoo: 'cnn' batch_norm: LAST_BATCH }").ok());
  ASSERT_EQ(client_->names.size(), 14u);
  EXPECT_EQ(client_->names[10], "bn1.running_mean");
  EXPECT_EQ(client_->names[13], "bn2.running_var");
  auto model = ReadSafetensors(options_.run_dir + "/model.safetensors");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->tensors[3].name, "bn1.running_mean");
  // One rank: the mean over all ranks is its own.
  EXPECT_EQ(absl::MakeConstSpan(model->tensors[3].values), client_->Weights(10));
  const std::vector<float> last = model->tensors[3].values;
  ASSERT_TRUE(Train(job + "model { zoo: 'cnn' }").ok());
  EXPECT_EQ(client_->names.size(), 10u);
  model = ReadSafetensors(options_.run_dir + "/model.safetensors");
  // The same batches; running means begin at 0 and have come but part of the way.
  for (size_t i = 0; i < last.size(); ++i) {
    EXPECT_LT(std::abs(model->tensors[3].values[i]), std::abs(last[i]) + 1e-3f) << i;
  }
  EXPECT_NE(model->tensors[3].values, last);
}

TEST_F(TrainerTest, HashesOfTwoRunsAgreeAndChangeWithTheSeed) {
  const std::string job = std::string(kTrainerSmall) + "debug { hash_weights: true } ";
  options_.node = 3;
  ASSERT_TRUE(Train(job).ok());
  const std::string first = Read("weights.node-3.hashes");
  EXPECT_THAT(first, ::testing::MatchesRegex("(([0-9]+|final) [0-9a-f]{16}\n){21}"));
  EXPECT_THAT(first, ::testing::StartsWith("0 "));
  ASSERT_TRUE(Train(job).ok());
  EXPECT_EQ(Read("weights.node-3.hashes"), first);
  ASSERT_TRUE(Train(absl::StrReplaceAll(job, {{"seed: 1", "seed: 2"}})).ok());
  EXPECT_NE(Read("weights.node-3.hashes"), first);
}

TEST_F(TrainerTest, NanLossFailsAndNamesTheStep) {
  ExpectFailure(std::string(kTrainerSmall) + "debug { nan_rank: 0 nan_step: 12 }",
                absl::StatusCode::kInvalidArgument, "loss is NaN at step 12");
  EXPECT_EQ(client_->steps, 13);
  EXPECT_FALSE(client_->finished);
}

TEST_F(TrainerTest, NanOfAnotherRankIsNotOurs) {
  EXPECT_TRUE(Train(std::string(kTrainerSmall) + "debug { nan_rank: 1 nan_step: 3 }").ok());
}

TEST_F(TrainerTest, DivergenceFails) {
  auto outcome = Train(absl::StrReplaceAll(kTrainerSmall, {{"base_lr: 0.02", "base_lr: 1e30"}}));
  EXPECT_TRUE(HasDiverged(outcome.status()));
  EXPECT_THAT(client_->failures, ElementsAre(::testing::StartsWith("loss is ")));
}

TEST_F(TrainerTest, DataErrorFailsBeforeAnythingIsRegistered) {
  ExpectFailure("model { zoo: 'mlp' } data { idx { dir: '/nowhere' } }",
                absl::StatusCode::kNotFound,
                "/nowhere/train-labels-idx1-ubyte: No such file or directory");
  EXPECT_TRUE(client_->names.empty());
}

TEST_F(TrainerTest, ModelThatDoesNotFitTheDataFails) {
  ExpectFailure("model { zoo: 'lenet5' } data { synthetic { height: 8 } }",
                absl::StatusCode::kInvalidArgument,
                "model lenet5 does not fit data.synthetic (images of 1 x 8 x 28, 10 classes): it "
                "needs 1 x 28 x 28 and 10 classes");
}

TEST_F(TrainerTest, TooFewSamplesForOneStepFail) {
  ExpectFailure("model { zoo: 'mlp' } data { batch_per_rank: 5000 synthetic {} }",
                absl::StatusCode::kInvalidArgument,
                "the 4096 training samples are fewer than one step needs (1 ranks x "
                "batch_per_rank 5000)");
}

TEST_F(TrainerTest, UnwritableRunDirectoryFailsBeforeTraining) {
  const std::string dir = options_.run_dir;
  options_.run_dir = dir + "/missing";
  ExpectFailure(kTrainerSmall, absl::StatusCode::kNotFound,
                "cannot write to run directory " + dir + "/missing: No such file or directory");
  EXPECT_EQ(client_->steps, 0);
  options_.run_dir = dir;
}

TEST_F(TrainerTest, AnErrorOfTheClientIsReturnedAsItIs) {
  fail_at_step_ = 3;
  auto outcome = Train(kTrainerSmall);
  EXPECT_EQ(outcome.status(), absl::UnavailableError("aggregator of node 0 is gone"));
  EXPECT_TRUE(client_->failures.empty());
}

TEST_F(TrainerTest, StopEndsADelayAtOnce) {
  absl::Notification stop;
  options_.stop = &stop;
  std::thread stopper([&] { stop.Notify(); });
  auto outcome =
      Train(std::string(kTrainerSmall) + "debug { delays { node: 0 delay_ms: 3600000 } }");
  stopper.join();
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(TrainerTest, DelaysOfAnotherNodeAreNotOurs) {
  EXPECT_TRUE(
      Train(std::string(kTrainerSmall) + "debug { delays { node: 1 delay_ms: 3600000 } }").ok());
}

TEST(Evaluator, TakesAsManySamplesAtATimeAsItsMemoryAllows) {
  const auto batch = [](const std::string& model, const Shape& input) {
    return Evaluator::BatchFor(*MakeModel(model, input, 10));
  };
  EXPECT_EQ(batch("lenet5", {1, 28, 28}), 256u);
  EXPECT_EQ(batch("resnet8", {3, 32, 32}), 256u);
  // 22.2 million values after convolutions, batch normalisations and joins: 89 MB a sample.
  EXPECT_EQ(batch("resnet50", {3, 224, 224}), 4u);
}

// Jobs whose nodes come and go, as the trainer makes them.

using client::StepRanks;
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

  // The windows of the reports that have steps.
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
  // Rank 0 continues with batch 4; from step 5 on, which begins with batch 6, everything differs.
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

// The rank that would lead the step after the last one has the final model.
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

// Jobs that go on from a checkpoint, as the trainer makes them.

constexpr char kResumeSmall[] =
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

// The reports of a run from a step on: ends of windows, measurements there, hashes.
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
      std::string(kResumeSmall) + "debug { hash_weights: true } evaluation { every_steps: 7 } ";
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
  const std::string job =
      std::string(kResumeSmall) + "evaluation { every_steps: 3 deferred: true } ";
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
  ASSERT_TRUE(Train(kResumeSmall).ok());
  begins_with_ = client_->kept;
  for (const uint64_t first : {20, 23}) {
    goes_on_at_ = first;
    const auto outcome = Train(kResumeSmall);
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
  ASSERT_TRUE(Train(std::string(kResumeSmall) + "max_steps: 1").ok());
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

}  // namespace strata::training
