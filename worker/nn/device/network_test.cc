// Networks on the fake device, with its cuDNN and cuBLAS, beside plain scalar loops and oneDNN.

#include "worker/nn/device/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/fake_cuda/control.h"
#include "worker/nn/bound_network.h"
#include "worker/nn/device/bound_device_network.h"
#include "worker/nn/layer_cases.h"
#include "worker/nn/models/zoo.h"
#include "worker/nn/reference_network.h"
#include "worker/random/random.h"

namespace strata::worker {
namespace {

using device::Precision;

float Noise(uint64_t key, uint64_t i) { return 2 * RandomUniform(key, i) - 1; }

std::vector<float> Images(size_t count, uint64_t key) {
  std::vector<float> images(count);
  for (size_t i = 0; i < count; ++i) images[i] = Noise(key, i);
  return images;
}

Backend OnFakeDevice(Precision precision) {
  static const auto devices = cuda::FindDevices().value();
  static const auto device = devices->Use(0).value();
  return OpenBackend(device.get(), precision).value();
}

// What products that lose 13 and 16 bits of fp32's mantissa make of layers, also where these take
// differences of like numbers, or decide at a kink.
double ToleranceOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return 3e-5;
    case Precision::kTensorFloat32:
    case Precision::kBFloat16:
      return 0.15;
  }
  return 0;
}

template <typename Tensor>
double MeanSize(const Tensor& tensor) {
  double sum = 0;
  for (auto value : tensor) sum += std::abs(value);
  return sum / static_cast<double>(tensor.size());
}

// In fp32, of each value. Else of the mean, beside the tensor's own mean size and `scale`, that of
// others: what is the sum of many and should be nothing is as far off as they are.
template <typename A, typename B>
void ExpectClose(const A& got, const B& want, Precision precision, const std::string& what,
                 double scale = 0) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    difference += std::abs(got[i] - want[i]) / static_cast<double>(want.size());
  }
  const double tolerance = ToleranceOf(precision);
  if (precision != Precision::kFloat32) {
    EXPECT_LE(difference, tolerance * (MeanSize(want) + scale)) << what;
    return;
  }
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * largest + 1e-5) << what << " element " << i;
  }
}

template <typename Tensors>
void ExpectGradientsClose(const BoundDeviceNetwork& bound, const Tensors& want,
                          const ModelSpec& model, Precision precision) {
  double scale = 0;
  for (const auto& tensor : want) scale = std::max(scale, MeanSize(tensor));
  for (size_t t = 0; t < want.size(); ++t) {
    ExpectClose(bound.gradients[t], want[t], precision, WeightsOf(model)[t].name, scale);
  }
}

class DeviceLayerTest : public testing::TestWithParam<std::tuple<LayerCase, Precision>> {};

TEST_P(DeviceLayerTest, AgreesWithScalarLoops) {
  const auto& [layer, precision] = GetParam();
  const ModelSpec model = {layer.name, layer.input, layer.layers};
  BoundDeviceNetwork bound(model, {.batch = layer.batch, .input_gradient = true},
                           OnFakeDevice(precision));
  // Weights that no symmetry hides behind: also biases and scales vary.
  ReferenceNetwork<double> reference(model, layer.batch);
  for (size_t t = 0; t < bound.weights.size(); ++t) {
    for (size_t i = 0; i < bound.weights[t].size(); ++i) {
      bound.weights[t][i] += 0.3f * Noise(50 + t, i);
    }
    reference.weights[t].assign(bound.weights[t].begin(), bound.weights[t].end());
  }
  const std::vector<float> images = Images(layer.batch * model.input.Elements(), 1);
  std::vector<uint16_t> labels;
  for (uint32_t i = 0; i < layer.batch; ++i) labels.push_back(i % 4);
  for (int step = 0; step < 2; ++step) {  // the second pass meets buffers that are not fresh
    const auto& logits = reference.Forward(std::vector<double>(images.begin(), images.end()));
    const auto loss = bound.Forward(images, labels, step);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ExpectClose(bound.network->Logits(), logits, precision, "logits");
    const double want = reference.Loss(absl::MakeConstSpan(labels));
    EXPECT_NEAR(*loss, want, ToleranceOf(precision) * (want + 3));
    ASSERT_EQ(bound.Backward(), absl::OkStatus());
    ExpectClose(bound.network->InputGradient(), reference.Backward(), precision, "image gradient");
    ExpectGradientsClose(bound, reference.gradients, model, precision);
    for (size_t t = 0; t < bound.buffers.size(); ++t) {
      ExpectClose(bound.buffers[t], reference.buffers[t], precision, BuffersOf(model)[t].name);
    }
  }
}

std::string NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "Fp32";
    case Precision::kTensorFloat32:
      return "Tf32";
    case Precision::kBFloat16:
      return "Bf16";
  }
  return "";
}

std::string Name(const testing::TestParamInfo<std::tuple<LayerCase, Precision>>& info) {
  return std::get<0>(info.param).name + NameOf(std::get<1>(info.param));
}

const auto kPrecisions =
    testing::Values(Precision::kFloat32, Precision::kTensorFloat32, Precision::kBFloat16);
#define STRATA_LAYER_SUITE(suite, cases)           \
  INSTANTIATE_TEST_SUITE_P(suite, DeviceLayerTest, \
                           testing::Combine(testing::ValuesIn(cases()), kPrecisions), Name)
STRATA_LAYER_SUITE(Simple, SimpleLayerCases);
STRATA_LAYER_SUITE(Shortcut, ShortcutCases);
STRATA_LAYER_SUITE(Concat, ConcatCases);
STRATA_LAYER_SUITE(Join, JoinCases);

class DeviceModelTest : public testing::TestWithParam<std::tuple<std::string, Precision>> {};

// oneDNN's network takes each step from the device's weights, so that differences do not add up.
TEST_P(DeviceModelTest, EachStepIsThatOfOneDnn) {
  const auto& [name, precision] = GetParam();
  const Shape input = name == "resnet8" ? Shape{3, 16, 16} : Shape{1, 28, 28};
  const ModelSpec model = MakeModel(name, input, 10).value();
  constexpr uint32_t kBatch = 4;
  BoundDeviceNetwork bound(model, {.batch = kBatch}, OnFakeDevice(precision));
  BoundNetwork reference(model, {.batch = kBatch});
  const std::vector<uint16_t> labels = {0, 3, 9, 4};
  for (int step = 0; step < 4; ++step) {
    const std::vector<float> images = Images(kBatch * input.Elements(), 10 + step);
    reference.weights = bound.weights;
    reference.buffers = bound.buffers;
    const double want = reference.Forward(images, labels, step);
    const auto loss = bound.Forward(images, labels, step);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_NEAR(*loss, want, ToleranceOf(precision) * want) << "step " << step;
    ASSERT_EQ(bound.Backward(), absl::OkStatus());
    ASSERT_EQ(reference.Backward(), absl::OkStatus());
    ExpectGradientsClose(bound, reference.gradients, model, precision);
    for (size_t t = 0; t < bound.weights.size(); ++t) {
      for (size_t i = 0; i < bound.weights[t].size(); ++i) {
        bound.weights[t][i] -= 0.002f * bound.gradients[t][i];
      }
    }
    for (size_t t = 0; t < bound.buffers.size(); ++t) {
      ExpectClose(bound.buffers[t], reference.buffers[t], precision, BuffersOf(model)[t].name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Small, DeviceModelTest,
    testing::Combine(testing::Values("lenet5", "resnet8"),
                     testing::Values(Precision::kFloat32, Precision::kTensorFloat32)),
    [](const auto& info) { return std::get<0>(info.param) + NameOf(std::get<1>(info.param)); });

TEST(DeviceNetwork, DropoutDrawsTheNumbersOfTheCpu) {
  const ModelSpec model{"dropout",
                        {3, 4, 5},
                        {{"a", Dropout{0.25f}}, {"flatten", Flatten{}}, {"last", InnerProduct{4}}}};
  const Network::Options options = {.batch = 5, .seed = 3, .rank = 2, .input_gradient = true};
  BoundDeviceNetwork bound(model, options, OnFakeDevice(Precision::kFloat32));
  BoundNetwork reference(model, options);
  const std::vector<float> images = Images(5 * 60, 1);
  const std::vector<uint16_t> labels = {0, 1, 2, 3, 0};
  const double want = reference.Forward(images, labels, 7);
  EXPECT_NEAR(bound.Forward(images, labels, 7).value(), want, 1e-5 * want);
  ASSERT_EQ(reference.Backward(), absl::OkStatus());
  ASSERT_EQ(bound.Backward(), absl::OkStatus());
  ExpectClose(bound.network->InputGradient(), reference.network->InputGradient(),
              Precision::kFloat32, "image gradient");
}

TEST(DeviceNetwork, InferenceUsesRunningStatisticsAndNoDropoutAndCountsAShortBatch) {
  const ModelSpec model{"m",
                        {4, 2, 2},
                        {{"bn", BatchNorm{.epsilon = 0}},
                         {"flatten", Flatten{}},
                         {"drop", Dropout{0.5f}},
                         {"last", InnerProduct{16}}}};
  BoundDeviceNetwork bound(model, {.batch = 2, .mode = Network::Mode::kInference},
                           OnFakeDevice(Precision::kFloat32));
  std::fill(bound.weights[2].begin(), bound.weights[2].end(), 0.0f);
  for (size_t i = 0; i < 16; ++i) bound.weights[2][i * 16 + i] = 1.0f;
  bound.buffers[0] = {1, 2, 3, 4};
  bound.buffers[1] = {4, 16, 64, 0.25f};
  bound.Upload(bound.buffers, bound.buffer_memory);
  const std::vector<float> images(32, 5.0f);
  const double loss = bound.Forward(images, {0}).value();
  const std::vector<float> want = {2, 0.75f, 0.25f, 2};
  double total = 0;
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_FLOAT_EQ(bound.network->Logits()[i], want[i % 16 / 4]) << i;
    if (i < 16) total += std::exp(want[i / 4]);
  }
  EXPECT_NEAR(loss, std::log(total) - 2, 1e-5);
}

TEST(DeviceNetwork, AsksForWeightsInForwardOrderAndQueuesGradientsBeforeItSaysSo) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  BoundDeviceNetwork bound(model, {.batch = 2}, OnFakeDevice(Precision::kFloat32));
  const std::vector<float> images = Images(2 * 784, 1);
  std::vector<int> read, completed;
  bound.Upload(bound.weights, bound.weight_memory);
  const auto reads = [&](int weight) {
    read.push_back(weight);
    return absl::OkStatus();
  };
  ASSERT_EQ(bound.network->Prefetch(images.data()), absl::OkStatus());
  ASSERT_EQ(bound.network->Forward(images.data(), 0, reads), absl::OkStatus());
  ASSERT_TRUE(bound.network->Loss({1, 2}).ok());
  bound.gradients.assign(bound.gradients.size(), {});
  for (size_t t = 0; t < bound.weights.size(); ++t) {
    bound.gradients[t].assign(bound.weights[t].size(), NAN);
  }
  bound.Upload(bound.gradients, bound.gradient_memory);
  auto at_hook = bound.gradients;
  ASSERT_EQ(bound.network->Backward([&](int weight) {
    completed.push_back(weight);
    auto now = bound.gradients;
    bound.Download(&now, bound.gradient_memory);
    at_hook[weight] = now[weight];
    return absl::OkStatus();
  }),
            absl::OkStatus());
  bound.Download(&bound.gradients, bound.gradient_memory);
  EXPECT_EQ(read, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(completed, (std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(at_hook, bound.gradients);
}

TEST(DeviceNetwork, TwoNetworksShareABackendAndPrefetchedImagesAreThoseOfTheirStep) {
  const ModelSpec model = MakeModel("mlp", {1, 4, 4}, 3).value();
  const Backend backend = OnFakeDevice(Precision::kFloat32);
  BoundDeviceNetwork a(model, {.batch = 2}, backend), b(model, {.batch = 2}, backend);
  const std::vector<uint16_t> labels = {0, 2};
  std::vector<std::vector<float>> batches;
  for (int step = 0; step < 4; ++step) batches.push_back(Images(32, 20 + step));
  for (int step = 0; step < 4; ++step) {
    const double plain = b.Forward(batches[step], labels).value();
    EXPECT_EQ(a.Forward(batches[step], labels).value(), plain);
    if (step < 3) {
      ASSERT_EQ(a.network->Prefetch(batches[step + 1].data()), absl::OkStatus());
    }
    ASSERT_EQ(a.Backward(), absl::OkStatus());
    ASSERT_EQ(b.Backward(), absl::OkStatus());
    EXPECT_EQ(a.gradients, b.gradients);
  }
}

TEST(DeviceNetwork, LeNet5Learns) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  constexpr uint32_t kBatch = 10;
  BoundDeviceNetwork bound(model, {.batch = kBatch}, OnFakeDevice(Precision::kBFloat16));
  // Ten patterns with noise.
  std::vector<uint16_t> labels;
  for (uint16_t i = 0; i < kBatch; ++i) labels.push_back(i);
  double first = 0, loss = 0;
  uint64_t correct = 0;
  for (int step = 0; step < 30; ++step) {
    std::vector<float> images(kBatch * 784);
    for (size_t i = 0; i < images.size(); ++i) {
      images[i] = Noise(100 + i / 784, i % 784) + 0.3f * Noise(1000 + step, i);
    }
    loss = bound.Forward(images, labels, step).value();
    if (step == 0) first = loss;
    const auto sums = bound.network->Loss(labels);
    ASSERT_TRUE(sums.ok());
    correct = sums->correct;
    ASSERT_EQ(bound.Backward(), absl::OkStatus());
    for (size_t t = 0; t < bound.weights.size(); ++t) {
      for (size_t i = 0; i < bound.weights[t].size(); ++i) {
        bound.weights[t][i] -= 0.05f / kBatch * bound.gradients[t][i];
      }
    }
  }
  EXPECT_LT(loss, 0.2 * first);
  EXPECT_GE(correct, 9u);
}

TEST(DeviceNetwork, WhatFailsIsToldWithItsLayer) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  const Backend backend = OnFakeDevice(Precision::kTensorFloat32);
  BoundDeviceNetwork bound(model, {.batch = 2}, backend);
  const std::vector<float> images = Images(2 * 784, 1);
  ASSERT_TRUE(bound.Forward(images, {0, 1}).ok());
  fake_cuda::Configure({.cudnn_fails_at = 2});
  const absl::Status status = bound.Forward(images, {0, 1}).status();
  fake_cuda::Configure({});
  EXPECT_EQ(status, absl::InternalError("layer conv2: cuDNN: cudnnBackendExecute: "
                                        "CUDNN_STATUS_EXECUTION_FAILED: as the test wants it"));
  EXPECT_TRUE(bound.Forward(images, {0, 1}).ok());
}

TEST(DeviceNetwork, MemoryThatIsNotThereIsNamedAndAllOfItIsGivenBack) {
  const ModelSpec model = MakeModel("resnet8", {3, 16, 16}, 10).value();
  const size_t before = fake_cuda::AllocatedBytes();
  {
    const Backend backend = OnFakeDevice(Precision::kFloat32);
    BoundDeviceNetwork bound(model, {.batch = 2}, backend);
    EXPECT_GT(fake_cuda::AllocatedBytes(), before);
    fake_cuda::Configure({.memory_bytes = size_t{48} << 20});
    const auto large = CreateNetwork(model, {.batch = 512}, backend);
    EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
    fake_cuda::Configure({});
  }
  EXPECT_EQ(fake_cuda::AllocatedBytes(), before);
}

TEST(DeviceNetwork, RefusesAnEmptyBatch) {
  const ModelSpec model = MakeModel("mlp", {1, 4, 4}, 3).value();
  const auto refused = CreateNetwork(model, {.batch = 0}, OnFakeDevice(Precision::kFloat32));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::worker
