#include "training/trainer/trainer.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_replace.h"
#include "common/image/safetensors.h"
#include "training/nn/models/zoo.h"
#include "training/trainer/evaluator.h"
#include "training/trainer/recording_client.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSmall[] =
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
  ASSERT_TRUE(Train(kSmall).ok());
  EXPECT_THAT(client_->names, ElementsAre("fc3.bias", "fc3.weight", "fc2.bias", "fc2.weight",
                                          "fc1.bias", "fc1.weight"));
  EXPECT_THAT(client_->published, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(client_->facts.samples_per_epoch, 320u);
  EXPECT_EQ(client_->facts.total_steps, 20u);
}

TEST_F(TrainerTest, ReportsWindowsThatEndAtEpochsAndTheLastOneIsFinal) {
  auto outcome = Train(kSmall);
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
  ASSERT_TRUE(Train(std::string(kSmall) + "evaluation { every_steps: 7 }").ok());
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
  auto outcome = Train(std::string(kSmall) + "max_steps: 13");
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
  const std::string job = std::string(kSmall) + "debug { hash_weights: true } ";
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
  ExpectFailure(std::string(kSmall) + "debug { nan_rank: 0 nan_step: 12 }",
                absl::StatusCode::kOutOfRange, "loss is NaN at step 12");
  EXPECT_EQ(client_->steps, 13);
  EXPECT_FALSE(client_->finished);
}

TEST_F(TrainerTest, NanOfAnotherRankIsNotOurs) {
  EXPECT_TRUE(Train(std::string(kSmall) + "debug { nan_rank: 1 nan_step: 3 }").ok());
}

TEST_F(TrainerTest, DivergenceFails) {
  auto outcome = Train(absl::StrReplaceAll(kSmall, {{"base_lr: 0.02", "base_lr: 1e30"}}));
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kOutOfRange);
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
  ExpectFailure(kSmall, absl::StatusCode::kNotFound,
                "cannot write to run directory " + dir + "/missing: No such file or directory");
  EXPECT_EQ(client_->steps, 0);
  options_.run_dir = dir;
}

TEST_F(TrainerTest, AnErrorOfTheClientIsReturnedAsItIs) {
  fail_at_step_ = 3;
  auto outcome = Train(kSmall);
  EXPECT_EQ(outcome.status(), absl::UnavailableError("aggregator of node 0 is gone"));
  EXPECT_TRUE(client_->failures.empty());
}

TEST_F(TrainerTest, StopEndsADelayAtOnce) {
  absl::Notification stop;
  options_.stop = &stop;
  std::thread stopper([&] { stop.Notify(); });
  auto outcome = Train(std::string(kSmall) + "debug { delays { node: 0 delay_ms: 3600000 } }");
  stopper.join();
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
}

TEST_F(TrainerTest, DelaysOfAnotherNodeAreNotOurs) {
  EXPECT_TRUE(Train(std::string(kSmall) + "debug { delays { node: 1 delay_ms: 3600000 } }").ok());
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

}  // namespace
}  // namespace strata::worker
