// The first 100 steps of LeNet-5 beside a plain scalar implementation, optimizer included.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "training/data/batch_source.h"
#include "training/data/sampler.h"
#include "training/nn/bound_network.h"
#include "training/nn/models/zoo.h"
#include "training/nn/testing/reference_network.h"

namespace strata::worker {
namespace {

// v = 0.9 v + g / samples; w -= lr v.
template <typename Tensors>
void MomentumStep(const Tensors& gradients, float samples, float lr, Tensors* velocities,
                  Tensors* weights) {
  for (size_t t = 0; t < weights->size(); ++t) {
    for (size_t i = 0; i < (*weights)[t].size(); ++i) {
      (*velocities)[t][i] = 0.9f * (*velocities)[t][i] + gradients[t][i] / samples;
      (*weights)[t][i] -= lr * (*velocities)[t][i];
    }
  }
}

TEST(LeNet5, LossOfTheFirst100StepsIsThatOfScalarLoops) {
  constexpr uint32_t kBatch = 64;
  constexpr float kRate = 0.02f;
  proto::Data config;
  config.mutable_synthetic()->set_test_samples(1);
  const TrainAndTest data = LoadData(config, 1).value();
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  BatchSource source(
      &data.train, Normalisation::Of(data.train),
      {.batch = kBatch, .batches_per_epoch = StepsPerEpoch(data.train.size(), 1, kBatch)});
  source.Start();
  BoundNetwork bound(model, {.batch = kBatch});
  ReferenceNetwork<float> reference(model, kBatch);
  auto velocities = bound.weights, reference_velocities = reference.weights;
  for (auto* tensors : {&velocities, &reference_velocities}) {
    for (auto& tensor : *tensors) std::fill(tensor.begin(), tensor.end(), 0.0f);
  }
  double first = 0, loss = 0;
  for (int step = 0; step < 100; ++step) {
    source.Expect(step);
    const Batch& batch = source.Next();
    loss = bound.Forward(batch.images, batch.labels, step) / kBatch;
    if (step == 0) first = loss;
    ASSERT_TRUE(bound.Backward().ok());
    reference.Forward(absl::MakeConstSpan(batch.images));
    const double expected = reference.Loss(absl::MakeConstSpan(batch.labels)) / kBatch;
    reference.Backward();
    ASSERT_NEAR(loss, expected, 1e-3 * expected) << "step " << step;
    MomentumStep(bound.gradients, kBatch, kRate, &velocities, &bound.weights);
    MomentumStep(reference.gradients, kBatch, kRate, &reference_velocities, &reference.weights);
  }
  EXPECT_LT(loss, 0.5 * first);  // it did learn
}

}  // namespace
}  // namespace strata::worker
