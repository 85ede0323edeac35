// The formulas of proto/job.proto with numbers worked out by hand.
#include "tests/sim/check/reference_optimizer.h"

#include <cmath>
#include <string>

#include "common/job/job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata::sim {
namespace {

// Tensors of one element each, with multipliers of rate and decay, in one chunk.
proto::JobRecord OptimizerRecordOf(const std::string& job,
                                   const std::vector<std::pair<float, float>>& multipliers = {
                                       {1, 1}}) {
  proto::JobRecord record;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(job, record.mutable_job()));
  FillDefaults(record.mutable_job());
  record.set_samples_per_epoch(100);
  for (const auto& [rate, decay] : multipliers) {
    proto::Segment* segment = record.mutable_layout()->add_segments();
    segment->add_shape(1);
    segment->set_offset(record.layout().elements());
    segment->set_lr_multiplier(rate);
    segment->set_decay_multiplier(decay);
    record.mutable_layout()->set_elements(segment->offset() + 1);
  }
  record.mutable_placement()->set_chunk_elements(multipliers.size());
  return record;
}

// A weight of 2 after updates with gradient 1 each, at rate 0.5.
std::vector<float> After(int updates, const std::string& optimizer) {
  const proto::JobRecord record =
      OptimizerRecordOf("schedule { base_lr: 0.5 } optimizer { " + optimizer + " }");
  ReferenceOptimizer reference(record, ChunkId(0));
  std::vector<float> weights = {2};
  for (int i = 0; i < updates; ++i) reference.Update({4}, 4, 4, 1.0, &weights);
  return weights;
}

TEST(ReferenceOptimizer, SgdSubtractsRateTimesDecayedGradient) {
  EXPECT_EQ(After(1, "sgd { weight_decay: 0.25 }"), std::vector<float>{2 - 0.5f * (1 + 0.5f)});
}

TEST(ReferenceOptimizer, MomentumKeepsHalfOfItsVelocity) {
  // v = 1, w = 1.5; v = 1.5, w = 0.75
  EXPECT_EQ(After(2, "momentum_sgd { momentum: 0.5 }"), std::vector<float>{0.75f});
}

TEST(ReferenceOptimizer, NesterovLooksAhead) {
  // v = 1, w = 2 - 0.5 * 1.5 = 1.25; v = 1.5, w = 1.25 - 0.5 * 1.75 = 0.375
  EXPECT_EQ(After(2, "nesterov { momentum: 0.5 }"), std::vector<float>{0.375f});
}

TEST(ReferenceOptimizer, AdamStepsByTheRateWhileTheGradientStaysTheSame) {
  // Both corrected moments are 1 in each update.
  EXPECT_EQ(After(3, "adam { beta1: 0.5 beta2: 0.5 epsilon: 0 }"), std::vector<float>{0.5f});
  // Decay is part of the gradient, which is normalized.
  EXPECT_EQ(After(1, "adam { beta1: 0.5 beta2: 0.5 epsilon: 0 weight_decay: 8 }"),
            std::vector<float>{1.5f});
  EXPECT_EQ(After(1, "adam { beta1: 0.5 beta2: 0.5 epsilon: 1 }"), std::vector<float>{1.75f});
}

TEST(ReferenceOptimizer, AdamWDecaysApartFromTheMoments) {
  EXPECT_EQ(After(1, "adamw { beta1: 0.5 beta2: 0.5 epsilon: 0 weight_decay: 0.25 }"),
            std::vector<float>{2 - 0.5f * (1 + 0.5f)});
}

TEST(ReferenceOptimizer, AdagradDividesByTheRootOfTheSumOfSquares) {
  EXPECT_EQ(After(1, "adagrad { epsilon: 0 }"), std::vector<float>{1.5f});
  EXPECT_EQ(After(2, "adagrad { epsilon: 0 }"),
            std::vector<float>{1.5f - 0.5f * (1 / std::sqrt(2.0f))});
  EXPECT_EQ(After(1, "adagrad { epsilon: 2 initial_accumulator: 3 weight_decay: 0 }"),
            std::vector<float>{2 - 0.5f * (1 / 4.0f)});
}

TEST(ReferenceOptimizer, FtrlStartsAtTheWeightAndShrinksItToZero) {
  // r(0) = 1 / 0.5, so z = -2 * 2; sigma = 2, so z = -4 + 1 - 2 * 2; r(1) = 2 / 0.5.
  EXPECT_EQ(After(1, "ftrl { beta: 1 }"), std::vector<float>{7.0f / 4});
  // z = -2 * 2 - 1 + 1 - 2 * 2, and |z| is 1 above l1.
  EXPECT_EQ(After(1, "ftrl { beta: 1 l1: 1 }"), std::vector<float>{7.0f / 4});
  // r(0) = 6 and r(1) = 8: z = -12 + 1 - 4.
  EXPECT_EQ(After(1, "ftrl { beta: 1 l2: 4 }"), std::vector<float>{15.0f / 8});
}

TEST(ReferenceOptimizer, RmspropWarmUpPassesToMomentumSgd) {
  // 4 of 100 samples: a = 1/2 + 0.04 / 0.16 and b = (1 - a) * 0.5 / 0.5; m = 0.5, d = -a - b.
  const float b = 0.25f / (std::sqrt(0.5f) + 0.5f);
  EXPECT_FLOAT_EQ(After(1,
                        "rmsprop_warmup { momentum: 0.5 decay: 0.5 epsilon: 0.5 rms_lr: 0.5 "
                        "center_epochs: 0 width_epochs: 0.16 }")[0],
                  2 - 0.5f * (0.75f + b));
  // From the second update on a = 1: d = -(0.75 + b) / 2 - 1.
  EXPECT_FLOAT_EQ(After(2,
                        "rmsprop_warmup { momentum: 0.5 decay: 0.5 epsilon: 0.5 rms_lr: 0.5 "
                        "center_epochs: 0 width_epochs: 0.16 }")[0],
                  2 - 0.5f * (0.75f + b) - 0.5f * ((0.75f + b) / 2 + 1));
}

TEST(ReferenceOptimizer, WhatIsAveragedIsTheMean) {
  proto::JobRecord record =
      OptimizerRecordOf("schedule { base_lr: 0.5 } optimizer { sgd {} }", {{1, 1}});
  std::vector<float> weights = {2};
  ReferenceOptimizer::Mean(record, ChunkId(0)).Update({4}, 8, 8, 1.0, &weights);
  EXPECT_EQ(weights, std::vector<float>{0.5f});
  record.mutable_layout()->mutable_segments(0)->set_averaged(true);
  ReferenceOptimizer(record, ChunkId(0)).Update({4}, 16, 16, 1.0, &weights);
  EXPECT_EQ(weights, std::vector<float>{0.25f});
}

TEST(ReferenceOptimizer, EachSegmentHasItsMultipliersInEveryChunk) {
  proto::JobRecord record = OptimizerRecordOf(
      "schedule { base_lr: 0.5 } optimizer { adamw { epsilon: 0 weight_decay: 0.5 } }",
      {{1, 1}, {2, 0}, {1, 0}, {0, 1}});
  record.mutable_placement()->set_chunk_elements(3);
  std::vector<float> weights = {2, 2, 2};
  ReferenceOptimizer first(record, ChunkId(0));
  first.Update({1, 1, 1}, 1, 1, 1.0, &weights);
  EXPECT_EQ(weights, (std::vector<float>{2 - 0.5f * 2, 2 - 1, 2 - 0.5f}));
  ReferenceOptimizer second(record, ChunkId(1));
  weights = {2};
  second.Update({1}, 1, 1, 1.0, &weights);
  EXPECT_EQ(weights, std::vector<float>{2});
}

TEST(ReferenceOptimizer, RateFollowsWarmUpAndShape) {
  const auto rate = [](const std::string& schedule, uint64_t samples) {
    const proto::JobRecord record = OptimizerRecordOf("epochs: 4 schedule { " + schedule + " }");
    return ReferenceOptimizer(record, ChunkId(0)).RateAt(samples);
  };
  EXPECT_EQ(rate("base_lr: 0.5", 1000), 0.5);
  EXPECT_EQ(rate("base_lr: 0.5 warmup_epochs: 2", 50), 0.125);
  EXPECT_EQ(rate("base_lr: 0.5 warmup_epochs: 2", 200), 0.5);
  const std::string step =
      "base_lr: 1 step { boundaries_epochs: 1 boundaries_epochs: 2.5 gamma: "
      "0.5 }";
  EXPECT_EQ(rate(step, 99), 1);
  EXPECT_EQ(rate(step, 100), 0.5);
  EXPECT_EQ(rate(step, 250), 0.25);
  const std::string cosine = "base_lr: 1 warmup_epochs: 2 cosine { final_lr: 0.5 }";
  EXPECT_EQ(rate(cosine, 200), 1);
  EXPECT_DOUBLE_EQ(rate(cosine, 300), 0.75);
  EXPECT_EQ(rate(cosine, 400), 0.5);
  EXPECT_EQ(rate(cosine, 4000), 0.5);
}

TEST(ReferenceOptimizer, TheRateCountsTheSamplesOfTheUpdateInHand) {
  const proto::JobRecord record =
      OptimizerRecordOf("schedule { base_lr: 1 warmup_epochs: 1 } optimizer { sgd {} }");
  ReferenceOptimizer reference(record, ChunkId(0));
  std::vector<float> weights = {0};
  reference.Update({25}, 25, 25, 1.0, &weights);
  EXPECT_EQ(weights[0], -0.25f);
  reference.Update({25}, 25, 25, 2.0, &weights);
  EXPECT_EQ(weights[0], -1.25f);
  reference.Update({}, 25, 25, 1.0, &weights);
  EXPECT_EQ(weights[0], -1.25f) << "an empty sum is a zero gradient";
}

}  // namespace
}  // namespace strata::sim
