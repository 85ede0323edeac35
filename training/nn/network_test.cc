#include "training/nn/network/network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/random.h"
#include "training/data/batch_source.h"
#include "training/nn/bound_network.h"
#include "training/nn/network/zoo.h"
#include "training/nn/reference_network.h"

namespace strata::training {

namespace {

std::vector<float> Images(size_t count, uint64_t key) {
  std::vector<float> images(count);
  for (size_t i = 0; i < count; ++i) images[i] = 2 * RandomUniform(key, i) - 1;
  return images;
}

TEST(Loss, IsExactAndStableForLargeLogits) {
  const std::vector<float> logits = {1000, 0, -1000, 0, 0, 0};
  std::vector<float> gradient(6);
  const LossSums sums = SoftmaxCrossEntropy(logits.data(), 3, {2, 1}, gradient.data());
  EXPECT_NEAR(sums.loss, 2000 + std::log(3.0), 1e-9);
  EXPECT_EQ(sums.correct, 0u);
  EXPECT_EQ(gradient[0], 1.0f);
  EXPECT_EQ(gradient[2], -1.0f);
  EXPECT_FLOAT_EQ(gradient[3], 1.0f / 3);
  EXPECT_FLOAT_EQ(gradient[4], 1.0f / 3 - 1);
}

TEST(Loss, OfNanLogitsIsNan) {
  const std::vector<float> logits = {0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_TRUE(std::isnan(SoftmaxCrossEntropy(logits.data(), 2, {0}, nullptr).loss));
}

TEST(Network, AsksForWeightsInForwardOrderAndCompletesThemInReverse) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  BoundNetwork bound(model, {.batch = 2});
  const std::vector<float> images = Images(2 * 784, 1);
  std::vector<int> read, completed;
  ASSERT_TRUE(bound.network
                  ->Forward(images.data(), 0,
                            [&](int weight) {
                              read.push_back(weight);
                              return absl::OkStatus();
                            })
                  .ok());
  ASSERT_TRUE(bound.network->Loss({1, 2}).ok());
  // Each gradient is there when its hook is called, and not written afterwards.
  std::vector<std::vector<float>> at_hook(bound.weights.size());
  for (auto& gradient : bound.gradients) std::fill(gradient.begin(), gradient.end(), NAN);
  ASSERT_TRUE(bound.network
                  ->Backward([&](int weight) {
                    completed.push_back(weight);
                    at_hook[weight] = bound.gradients[weight];
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(read, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(completed, (std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(at_hook, bound.gradients);
}

TEST(Network, AnErrorOfAHookEndsThePass) {
  const ModelSpec model = MakeModel("mlp", {1, 4, 4}, 3).value();
  BoundNetwork bound(model, {.batch = 2});
  const std::vector<float> images = Images(32, 1);
  const auto fail = [](int weight) {
    return weight == 2 ? absl::UnavailableError("gone") : absl::OkStatus();
  };
  EXPECT_EQ(bound.network->Forward(images.data(), 0, fail).code(), absl::StatusCode::kUnavailable);
  bound.Forward(images, {0, 1});
  EXPECT_EQ(bound.network->Backward(fail).code(), absl::StatusCode::kUnavailable);
}

TEST(Network, TwoRunsGiveTheSameBits) {
  const ModelSpec model = MakeModel("cnn", {1, 28, 28}, 10).value();
  const std::vector<float> images = Images(8 * 784, 2);
  const std::vector<uint16_t> labels = {0, 1, 2, 3, 4, 5, 6, 7};
  BoundNetwork a(model, {.batch = 8}), b(model, {.batch = 8});
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(a.Forward(images, labels, step), b.Forward(images, labels, step));
    ASSERT_EQ(a.Backward(), absl::OkStatus());
    ASSERT_EQ(b.Backward(), absl::OkStatus());
    ASSERT_EQ(a.gradients, b.gradients);
    for (BoundNetwork* bound : {&a, &b}) {
      for (size_t t = 0; t < bound->weights.size(); ++t) {
        for (size_t i = 0; i < bound->weights[t].size(); ++i) {
          bound->weights[t][i] -= 0.001f * bound->gradients[t][i];
        }
      }
    }
  }
  EXPECT_EQ(a.buffers, b.buffers);
}

// One rank keeps its arena in a vector, another in shared memory: the bits must not tell.
TEST(Network, BitsDoNotDependOnWhereTensorsLie) {
  for (const char* zoo : {"mlp", "lenet5", "cnn"}) {
    const ModelSpec model = MakeModel(zoo, {1, 28, 28}, 10).value();
    const std::vector<float> images = Images(16 * 784, 3);
    const std::vector<uint16_t> labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5};
    BoundNetwork a(model, {.batch = 16}), b(model, {.batch = 16});
    // b's tensors move to odd places, back to back, and its images too.
    std::vector<float> weights(1), gradients(1), moved_images(1);
    moved_images.insert(moved_images.end(), images.begin(), images.end());
    for (const auto& tensor : b.weights) {
      weights.insert(weights.end(), tensor.begin(), tensor.end());
    }
    gradients.resize(weights.size());
    std::vector<absl::Span<float>> weight_spans, gradient_spans;
    size_t offset = 1;
    for (const auto& tensor : b.weights) {
      weight_spans.push_back(absl::MakeSpan(weights).subspan(offset, tensor.size()));
      gradient_spans.push_back(absl::MakeSpan(gradients).subspan(offset, tensor.size()));
      offset += tensor.size();
    }
    b.network->Bind(weight_spans, gradient_spans, BoundNetwork::Spans(&b.buffers));
    const auto nothing = [](int) { return absl::OkStatus(); };
    for (int step = 0; step < 3; ++step) {
      const double loss = a.Forward(images, labels, step);
      ASSERT_TRUE(b.network->Forward(moved_images.data() + 1, step, nothing).ok());
      ASSERT_EQ(b.network->Loss(labels)->loss, loss) << zoo;
      ASSERT_TRUE(a.Backward().ok() && b.network->Backward(nothing).ok());
      for (size_t t = 0; t < a.weights.size(); ++t) {
        ASSERT_EQ(absl::MakeSpan(a.gradients[t]), gradient_spans[t]) << zoo << " tensor " << t;
        for (size_t i = 0; i < a.weights[t].size(); ++i) {
          a.weights[t][i] -= 0.001f * a.gradients[t][i];
          weight_spans[t][i] = a.weights[t][i];
        }
      }
    }
  }
}

TEST(Network, InferenceUsesRunningStatisticsAndNoDropout) {
  const ModelSpec model{"m",
                        {4, 2, 2},
                        {{"bn", BatchNorm{.epsilon = 0}},
                         {"flatten", Flatten{}},
                         {"drop", Dropout{0.5f}},
                         {"last", InnerProduct{16}}}};
  BoundNetwork bound(model, {.batch = 2, .mode = Network::Mode::kInference});
  std::fill(bound.weights[2].begin(), bound.weights[2].end(), 0.0f);
  for (size_t i = 0; i < 16; ++i) bound.weights[2][i * 16 + i] = 1.0f;
  bound.buffers[0] = {1, 2, 3, 4};
  bound.buffers[1] = {4, 16, 64, 0.25f};
  const std::vector<float> images(32, 5.0f);
  bound.Forward(images, {0});  // one label: the second sample does not count
  const std::vector<float> want = {2, 0.75f, 0.25f, 2};
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_FLOAT_EQ(bound.network->Logits()[i], want[i % 16 / 4]) << i;
  }
}

TEST(Network, InferenceLeavesTheCallersImagesAsTheyAre) {
  // Dropout hands its input on, and ReLU would like to overwrite what it gets.
  const ModelSpec model{
      "m", {4, 1, 1}, {{"drop", Dropout{0.5f}}, {"relu", Relu{}}, {"last", InnerProduct{2}}}};
  BoundNetwork bound(model, {.batch = 1, .mode = Network::Mode::kInference});
  const std::vector<float> images = {-1, 2, -3, 4};
  bound.Forward(images, {0});
  EXPECT_EQ(images, (std::vector<float>{-1, 2, -3, 4}));
}

TEST(Network, RefusesAnEmptyBatch) {
  const ModelSpec model = MakeModel("mlp", {1, 4, 4}, 3).value();
  EXPECT_EQ(CreateNetwork(model, {.batch = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

// The first 100 steps of LeNet-5 beside a plain scalar implementation, optimizer included.

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

}  // namespace strata::training
