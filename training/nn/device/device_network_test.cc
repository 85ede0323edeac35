// What networks on a device promise besides their values, with its cuDNN and cuBLAS.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "training/nn/bound_network.h"
#include "training/nn/device/network.h"
#include "training/nn/models/zoo.h"
#include "training/nn/testing/bound_device_network.h"
#include "training/nn/testing/on_test_device.h"
#include "training/nn/testing/reference_network.h"

namespace strata::worker {
namespace {

using device::Precision;

using DeviceNetwork = NeedsLibraries<testing::Test>;
// What only fake devices do when they are told to, and what they count.
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

}  // namespace
}  // namespace strata::worker
