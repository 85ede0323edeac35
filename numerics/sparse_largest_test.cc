// Steps of an encoder on the device beside kernels::Encoder's, bit for bit.
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device/device_kernels.h"
#include "kernels/device/test_devices.h"
#include "kernels/kernels.h"
#include "numerics/encoder.h"

namespace strata::cuda {
namespace {

using device::kGood;
using device::Verdict;
using kernels::Feedback;
using numerics::Compression;

// Vectors on the device, `shift` elements behind a multiple of 16 bytes, and one stream.
class OnDevice {
 public:
  OnDevice(size_t n, size_t shift) : n_(n), shift_(shift), room_((n + shift + 3) / 4 * 4) {
    device_ = *device::FindTestDevices()->Use(0);
    stream_ = *device_->NewStream(false);
    memory_ = *device_->Allocate(4 * (3 * room_ + 1 + 2 * n + 4), "a test");
    EXPECT_TRUE(stream_->Fill(memory_.get(), 0, 4 * (3 * room_ + 1 + 2 * n + 4)).ok());
  }

  float* vector(size_t which) const {
    return reinterpret_cast<float*>(memory_.get()) + which * room_ + shift_;
  }
  struct Step {
    Verdict verdict;
    std::vector<std::byte> payload;
  };
  Step Encode(const std::vector<float>& x, bool is_dgc, float factor, uint32_t k) {
    const kernels::Accumulators accumulators = {.feedback = kernels::Feedback::kResidual,
                                                .state = vector(1),
                                                .momentum = is_dgc ? vector(2) : nullptr,
                                                .factor = factor};
    std::byte* const payload = memory_.get() + 4 * 3 * room_ + 4;
    auto* const verdict = reinterpret_cast<Verdict*>(payload - 4);
    EXPECT_TRUE(stream_->Copy(vector(0), x.data(), 4 * n_).ok());
    EXPECT_TRUE(stream_->Fill(verdict, device::kGoodByte, sizeof *verdict).ok());
    const absl::Status status = device_->kernels().sparse.encode_largest(
        *stream_, vector(0), accumulators, n_, k, payload, verdict);
    EXPECT_TRUE(status.ok()) << status;
    Step step;
    step.payload.resize(4 + 8 * k);
    EXPECT_TRUE(stream_->Copy(step.payload.data(), payload, step.payload.size()).ok());
    EXPECT_TRUE(stream_->Copy(&step.verdict, verdict, sizeof *verdict).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    uint32_t count = 0;
    std::memcpy(&count, step.payload.data(), 4);
    EXPECT_LE(count, k);
    if (count < k) step.payload.resize(4 + 8 * count);
    return step;
  }
  std::vector<float> Read(size_t which) {
    std::vector<float> values(n_);
    EXPECT_TRUE(stream_->Copy(values.data(), vector(which), 4 * n_).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return values;
  }

 private:
  const size_t n_, shift_, room_;
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  device::Memory memory_;
};

// Vectors of many magnitudes, of a few that are often equal, or mostly zeros.
enum class Kind { kWide, kEqual, kZeros };
std::vector<float> Elements(size_t n, Kind kind, std::mt19937* random) {
  std::vector<float> x(n);
  for (float& element : x) {
    const float sign = (*random)() % 2 == 0 ? -1 : 1;
    if (kind == Kind::kWide) {
      element = sign * std::ldexp(1.0f + static_cast<float>((*random)() % 4096) / 4096,
                                  static_cast<int>((*random)() % 60) - 40);
    } else if (kind == Kind::kEqual || (*random)() % 97 == 0) {
      element = sign * static_cast<float>((*random)() % 3);
    }
  }
  return x;
}

bool AreSameBits(absl::Span<const float> a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * b.size()) == 0;
}

struct Case {
  size_t n, shift;
  double density;
  Kind kind;
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (size_t n : {1, 2, 31, 257, 1000, 5003, 20'000}) {
    for (Kind kind : {Kind::kWide, Kind::kEqual, Kind::kZeros}) {
      cases.push_back({n, n % 3 == 0 ? 1u : 0u, 0.01, kind});
      cases.push_back({n, n % 3 == 0 ? 0u : 3u, 0.4, kind});
    }
  }
  return cases;
}

void ExpectStepsOfTheHosts(const Case& of, bool is_dgc) {
  const numerics::CompressionOptions options = {
      .compression = is_dgc ? Compression::kDgc : Compression::kTopK,
      .density = of.density,
      .momentum = 0.75f};
  const auto host = *numerics::Encoder::Create(options, of.n, kernels::Cpu());
  numerics::EncoderScratch scratch;
  OnDevice device(of.n, of.shift);
  const auto k = std::min<uint64_t>(
      std::max<uint64_t>(1, std::llround(of.density * static_cast<double>(of.n))),
      wire::SparseCountMax(of.n));
  std::mt19937 random(static_cast<uint32_t>(of.n));
  for (int step = 0; step < 5; ++step) {
    const std::vector<float> x = Elements(of.n, of.kind, &random);
    std::vector<std::byte> expected(host->encoded_bytes_max());
    expected.resize(*host->Encode(x, &scratch, absl::MakeSpan(expected)));
    const OnDevice::Step got = device.Encode(x, is_dgc, options.momentum, static_cast<uint32_t>(k));
    ASSERT_EQ(got.verdict, kGood);
    ASSERT_EQ(got.payload, expected) << of.n << " " << step;
    ASSERT_TRUE(AreSameBits(host->State(0), device.Read(1))) << of.n << " " << step;
    if (!is_dgc) continue;
    ASSERT_TRUE(AreSameBits(host->State(1), device.Read(2))) << of.n << " " << step;
  }
}

TEST(SparseLargestTest, TopKHasTheHostsPayloadsAndStateStepByStep) {
  for (const Case& of : Cases()) ExpectStepsOfTheHosts(of, false);
}

TEST(SparseLargestTest, DgcHasTheHostsPayloadsStateAndMomentumStepByStep) {
  for (const Case& of : Cases()) ExpectStepsOfTheHosts(of, true);
}

TEST(SparseLargestTest, WhatIsNotFiniteIsChosenAndToldWhereverItIs) {
  for (float bad : {INFINITY, -INFINITY, NAN}) {
    for (size_t at : {0, 511, 1999}) {
      std::vector<float> x(2000, 3e38f);
      OnDevice device(x.size(), 0);
      EXPECT_EQ(device.Encode(x, false, 0, 1).verdict, kGood);
      x.assign(x.size(), -3e38f);
      x[at] = bad;
      EXPECT_EQ(device.Encode(x, false, 0, 1).verdict, device::kBad) << at;
    }
  }
}

TEST(SparseLargestTest, ASumThatOverflowsIsTold) {
  std::vector<float> x(300, 0.0f);
  x[7] = x[8] = 3e38f;
  OnDevice device(x.size(), 0);
  EXPECT_EQ(device.Encode(x, false, 0, 1).verdict, kGood);
  EXPECT_EQ(device.Encode(x, false, 0, 1).verdict, device::kBad);
}

}  // namespace
}  // namespace strata::cuda
