#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/random.h"
#include "kernels/device/test_devices.h"
#include "training/nn/bound_network.h"
#include "training/nn/create_network.h"
#include "training/nn/device/network.h"
#include "training/nn/network/zoo.h"
#include "training/nn/reference_network.h"

// Properties of networks on a device besides their values, with its cuDNN and cuBLAS.

namespace strata::training {

// Runs tests of networks on the first of the test's devices.
inline float Noise(uint64_t key, uint64_t i) { return 2 * RandomUniform(key, i) - 1; }

inline std::vector<float> Images(size_t count, uint64_t key) {
  std::vector<float> images(count);
  for (size_t i = 0; i < count; ++i) images[i] = Noise(key, i);
  return images;
}

inline absl::StatusOr<Backend> OpenOnDevice(device::Precision precision) {
  static const auto device = device::FindTestDevices()->Use(0).value();
  return OpenBackend(device.get(), precision);
}
inline Backend OnDevice(device::Precision precision) { return OpenOnDevice(precision).value(); }

// Skips where the device's libraries are not installed.
template <typename Base>
class NeedsLibraries : public Base {
 protected:
  void SetUp() override {
    const absl::Status status = OpenOnDevice(device::Precision::kFloat32).status();
    if (absl::IsNotFound(status) || absl::IsUnimplemented(status)) GTEST_SKIP() << status.message();
    ASSERT_EQ(status, absl::OkStatus());
  }
};

// A network on a device together with memory for weights, gradients and buffers, of which the
// vectors are the host's images; for tests. On the device tensors lie back to back, as in arenas.
struct BoundDeviceNetwork {
  using Tensors = std::vector<std::vector<float>>;

  BoundDeviceNetwork(const ModelSpec& model, const Network::Options& options, const Backend& on,
                     uint64_t seed = 1)
      : backend(on), network(CreateNetwork(model, options, on).value()) {
    for (const TensorSpec& tensor : ListWeights(model)) {
      weights.emplace_back(tensor.Elements());
      Initialize(tensor, seed, weights.size() - 1, absl::MakeSpan(weights.back()));
    }
    gradients = weights;
    for (const TensorSpec& tensor : ListBuffers(model)) {
      buffers.emplace_back(tensor.Elements(), tensor.constant);
    }
    network->Bind(Place(weights, &weight_memory), Place(gradients, &gradient_memory),
                  Place(buffers, &buffer_memory));
    Upload(buffers, buffer_memory);
  }

  // One pass each, weights to the device before, gradients and buffers back after; the loss.
  absl::StatusOr<double> Forward(const std::vector<float>& images,
                                 const std::vector<uint16_t>& labels, uint64_t step = 0) {
    const auto nothing = [](int) { return absl::OkStatus(); };
    Upload(weights, weight_memory);
    if (auto status = network->Forward(images.data(), step, nothing); !status.ok()) return status;
    const auto sums = network->Loss(labels);
    if (!sums.ok()) return sums.status();
    Download(&buffers, buffer_memory);
    return sums->loss;
  }
  absl::Status Backward() {
    auto status = network->Backward([](int) { return absl::OkStatus(); });
    Download(&gradients, gradient_memory);
    return status;
  }

  void Upload(const Tensors& tensors, const device::Memory& memory) {
    std::vector<float> all;
    for (const auto& tensor : tensors) all.insert(all.end(), tensor.begin(), tensor.end());
    all.push_back(0);
    (void)network->stream()->Copy(memory.get(), all.data(), all.size() * sizeof(float));
    (void)network->stream()->Synchronize();
  }
  void Download(Tensors* tensors, const device::Memory& memory) {
    auto* at = reinterpret_cast<float*>(memory.get());
    for (auto& tensor : *tensors) {
      (void)network->stream()->Copy(tensor.data(), at, tensor.size() * sizeof(float));
      at += tensor.size();
    }
    (void)network->stream()->Synchronize();
  }

  Backend backend;
  Tensors weights, gradients, buffers;
  device::Memory weight_memory, gradient_memory, buffer_memory;
  std::unique_ptr<Network> network;  // is gone before its memory

 private:
  std::vector<absl::Span<float>> Place(const Tensors& tensors, device::Memory* memory) {
    size_t count = 1;
    for (const auto& tensor : tensors) count += tensor.size();
    *memory = backend.device->Allocate(count * sizeof(float), "a test").value();
    auto* at = reinterpret_cast<float*>(memory->get());
    std::vector<absl::Span<float>> spans;
    for (const auto& tensor : tensors) {
      spans.push_back(absl::MakeSpan(at, tensor.size()));
      at += tensor.size();
    }
    return spans;
  }
};

namespace {

using device::Precision;

using DeviceNetwork = NeedsLibraries<testing::Test>;
// Faults and counts that only fake devices have.
using DeviceNetworkOnFake = NeedsLibraries<testing::Test>;

TEST_F(DeviceNetwork, DropoutDrawsTheNumbersOfTheCpu) {
  const ModelSpec model{"dropout",
                        {3, 4, 5},
                        {{"a", Dropout{0.25f}}, {"flatten", Flatten{}}, {"last", InnerProduct{4}}}};
  const Network::Options options = {.batch = 5, .seed = 3, .rank = 2, .input_gradient = true};
  BoundDeviceNetwork bound(model, options, OnDevice(Precision::kFloat32));
  BoundNetwork reference(model, options);
  const std::vector<float> images = Images(5 * 60, 1);
  const std::vector<uint16_t> labels = {0, 1, 2, 3, 0};
  const double want = reference.Forward(images, labels, 7);
  EXPECT_NEAR(bound.Forward(images, labels, 7).value(), want, 1e-5 * want);
  ASSERT_EQ(reference.Backward(), absl::OkStatus());
  ASSERT_EQ(bound.Backward(), absl::OkStatus());
  const auto &got = bound.network->InputGradient(), &expected = reference.network->InputGradient();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

// The rule of the scalar loops, of oneDNN and of the device: gradients of windows whose elements
// are equal go to the first of them, row by row.
TEST_F(DeviceNetwork, OfEqualElementsTheFirstOfAWindowIsItsMaximum) {
  const ModelSpec model{
      "ties",
      {4, 6, 5},
      {{"a", MaxPool{3, 2, 1}}, {"flatten", Flatten{}}, {"last", InnerProduct{4}}}};
  std::vector<float> images(2 * model.input.Elements());
  for (size_t i = 0; i < images.size(); ++i) images[i] = Noise(1, i) > 0 ? 0.5f : -0.5f;
  const std::vector<uint16_t> labels = {1, 3};
  BoundNetwork on_host(model, {.batch = 2, .input_gradient = true});
  ReferenceNetwork<double> reference(model, 2);
  for (size_t t = 0; t < on_host.weights.size(); ++t) {
    reference.weights[t].assign(on_host.weights[t].begin(), on_host.weights[t].end());
  }
  reference.Forward(std::vector<double>(images.begin(), images.end()));
  reference.Loss(absl::MakeConstSpan(labels));
  const auto& expected = reference.Backward();
  on_host.Forward(images, labels, 0);
  ASSERT_EQ(on_host.Backward(), absl::OkStatus());
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    BoundDeviceNetwork bound(model, {.batch = 2, .input_gradient = true}, OnDevice(precision));
    bound.weights = on_host.weights;
    ASSERT_TRUE(bound.Forward(images, labels, 0).ok());
    ASSERT_EQ(bound.Backward(), absl::OkStatus());
    const auto& got = bound.network->InputGradient();
    const double tolerance = precision == Precision::kFloat32 ? 1e-5 : 2e-2;
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(got[i] == 0, expected[i] == 0) << i;
      EXPECT_NEAR(got[i], expected[i], tolerance) << i;
      EXPECT_NEAR(on_host.network->InputGradient()[i], expected[i], 1e-5) << i;
    }
  }
}

TEST_F(DeviceNetwork, InferenceUsesRunningStatisticsAndNoDropoutAndCountsAShortBatch) {
  const ModelSpec model{"m",
                        {4, 2, 2},
                        {{"bn", BatchNorm{.epsilon = 0}},
                         {"flatten", Flatten{}},
                         {"drop", Dropout{0.5f}},
                         {"last", InnerProduct{16}}}};
  BoundDeviceNetwork bound(model, {.batch = 2, .mode = Network::Mode::kInference},
                           OnDevice(Precision::kFloat32));
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

TEST_F(DeviceNetwork, AsksForWeightsInForwardOrderAndQueuesGradientsBeforeItSaysSo) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  BoundDeviceNetwork bound(model, {.batch = 2}, OnDevice(Precision::kFloat32));
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

TEST_F(DeviceNetwork, TwoNetworksShareABackendAndPrefetchedImagesAreThoseOfTheirStep) {
  const ModelSpec model = MakeModel("mlp", {1, 4, 4}, 3).value();
  const Backend backend = OnDevice(Precision::kFloat32);
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

TEST_F(DeviceNetwork, LeNet5Learns) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  constexpr uint32_t kBatch = 10;
  BoundDeviceNetwork bound(model, {.batch = kBatch}, OnDevice(Precision::kBFloat16));
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

TEST_F(DeviceNetworkOnFake, WhatFailsIsToldWithItsLayer) {
  const ModelSpec model = MakeModel("lenet5", {1, 28, 28}, 10).value();
  const Backend backend = OnDevice(Precision::kTensorFloat32);
  BoundDeviceNetwork bound(model, {.batch = 2}, backend);
  const std::vector<float> images = Images(2 * 784, 1);
  ASSERT_TRUE(bound.Forward(images, {0, 1}).ok());
  device::ConfigureTestDevices("cudnn_fails_at=2");
  const absl::Status status = bound.Forward(images, {0, 1}).status();
  device::ConfigureTestDevices("");
  EXPECT_EQ(status, absl::InternalError("layer conv2: cuDNN: cudnnBackendExecute: "
                                        "CUDNN_STATUS_EXECUTION_FAILED: as the test wants it"));
  EXPECT_TRUE(bound.Forward(images, {0, 1}).ok());
}

TEST_F(DeviceNetworkOnFake, MemoryThatIsNotThereIsNamedAndAllOfItIsGivenBack) {
  const ModelSpec model = MakeModel("resnet8", {3, 16, 16}, 10).value();
  const size_t before = device::TestDeviceBytes();
  {
    const Backend backend = OnDevice(Precision::kFloat32);
    BoundDeviceNetwork bound(model, {.batch = 2}, backend);
    EXPECT_GT(device::TestDeviceBytes(), before);
    device::ConfigureTestDevices("memory_mb=48");
    const auto large = CreateNetwork(model, {.batch = 512}, backend);
    EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
    device::ConfigureTestDevices("");
  }
  EXPECT_EQ(device::TestDeviceBytes(), before);
}

TEST_F(DeviceNetwork, RefusesAnEmptyBatch) {
  const ModelSpec model = MakeModel("mlp", {1, 4, 4}, 3).value();
  const auto refused = CreateNetwork(model, {.batch = 0}, OnDevice(Precision::kFloat32));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
}

// Layers and models on a device, with its cuDNN and cuBLAS, in every precision: beside plain scalar
// loops and oneDNN.

// Products lose 13 or 16 bits of fp32's mantissa, and layers amplify this where they take
// differences of similar numbers or decide at a kink. The largest error with rounding to the
// nearest is 0.018 (batch normalisation of a batch of 4 in ResNet-8) and 0.114 (ReLU behind sums).
// Tensor cores truncate TF32: an H200 decides otherwise at a ReLU of the bottleneck, 0.085; without
// tensor cores (NVIDIA_TF32_OVERRIDE=0) it agrees.
double ToleranceOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return 3e-5;
    case Precision::kTensorFloat32:
      return 0.12;
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
    ExpectClose(bound.gradients[t], want[t], precision, ListWeights(model)[t].name, scale);
  }
}

class DeviceLayerTest
    : public NeedsLibraries<testing::TestWithParam<std::tuple<LayerCase, Precision>>> {};

TEST_P(DeviceLayerTest, AgreesWithScalarLoops) {
  const auto& [layer, precision] = GetParam();
  const ModelSpec model = {layer.name, layer.input, layer.layers};
  BoundDeviceNetwork bound(model, {.batch = layer.batch, .input_gradient = true},
                           OnDevice(precision));
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
      ExpectClose(bound.buffers[t], reference.buffers[t], precision, ListBuffers(model)[t].name);
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

class DeviceModelTest
    : public NeedsLibraries<testing::TestWithParam<std::tuple<std::string, Precision>>> {};

// oneDNN's network takes each step from the device's weights, so that differences do not add up.
TEST_P(DeviceModelTest, EachStepIsThatOfOneDnn) {
  const auto& [name, precision] = GetParam();
  const Shape input = name == "resnet8" ? Shape{3, 16, 16} : Shape{1, 28, 28};
  const ModelSpec model = MakeModel(name, input, 10).value();
  constexpr uint32_t kBatch = 4;
  BoundDeviceNetwork bound(model, {.batch = kBatch}, OnDevice(precision));
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
      ExpectClose(bound.buffers[t], reference.buffers[t], precision, ListBuffers(model)[t].name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Small, DeviceModelTest,
    testing::Combine(testing::Values("lenet5", "resnet8"),
                     testing::Values(Precision::kFloat32, Precision::kTensorFloat32)),
    [](const auto& info) { return std::get<0>(info.param) + NameOf(std::get<1>(info.param)); });

}  // namespace

}  // namespace strata::training
