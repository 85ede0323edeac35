// What a payload lacks returns: over many steps, what a receiver has added up and what the encoder
// keeps are together the sum of what went in. All sums here are in double, so only the encoder's
// own additions round: p = x + e and e = p - decoded, each by half a unit in the last place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compression/checked_payload.h"
#include "compression/encoder.h"

namespace strata::kernels {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

constexpr double kHalfUnit = 0x1p-24;

// Elements whose magnitude differs by place and step, as gradients of several layers do.
Floats Gradient(size_t n, std::mt19937* random) {
  std::normal_distribution<float> values(0.01f, 1.0f);
  Floats x(n);
  const float step = std::exp2(static_cast<float>((*random)() % 8));
  for (size_t i = 0; i < n; ++i) {
    x[i] = values(*random) * step * std::exp2(-static_cast<float>(i % 3000 / 100));
  }
  return x;
}

class Sender {
 public:
  Sender(const CompressionOptions& options, size_t n)
      : encoder_(*Encoder::Create(options, n, Cpu())), payload_(encoder_->encoded_bytes_max()) {}

  // Encodes, and hands over the payload that a receiver would check.
  CheckedPayload Send(const Floats& x) {
    const auto bytes = encoder_->Encode(x, &scratch_, absl::MakeSpan(payload_));
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    auto checked = CheckedPayload::Check(Cpu(), encoder_->codec(), x.size(),
                                         absl::MakeConstSpan(payload_).subspan(0, *bytes));
    EXPECT_TRUE(checked.ok()) << checked.status();
    return *checked;
  }
  Encoder& encoder() { return *encoder_; }

 private:
  std::unique_ptr<Encoder> encoder_;
  EncoderScratch scratch_;
  std::vector<std::byte> payload_;
};

struct Case {
  std::string name;
  CompressionOptions options;
  double rest = 1e-6;  // share of a distance that is left after 400 steps
};

class FeedbackOf : public testing::TestWithParam<Case> {};

TEST_P(FeedbackOf, WhatWasDecodedAndWhatIsKeptAreTogetherWhatWasGiven) {
  for (size_t n : {1, 50, 1024, 3333, 20000}) {
    std::mt19937 random(static_cast<uint32_t>(n));
    Sender sender(GetParam().options, n);
    Doubles given(n), received(n), bound(n);
    Floats kept(n), decoded(n);
    for (int step = 0; step < 100; ++step) {
      const Floats x = Gradient(n, &random);
      sender.Send(x).WriteTo(decoded.data());
      for (size_t i = 0; i < n; ++i) {
        const double p = double{x[i]} + kept[i];
        given[i] += x[i];
        received[i] += decoded[i];
        bound[i] += kHalfUnit * (std::abs(p) + std::max(std::abs(p), std::abs(double{decoded[i]})));
      }
      kept.assign(sender.encoder().State(0).begin(), sender.encoder().State(0).end());
    }
    for (size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(received[i] + kept[i], given[i], bound[i] * (1 + 1e-6)) << n << " at " << i;
    }
  }
}

TEST_P(FeedbackOf, WhatIsKeptDoesNotGrowWithTheSteps) {
  const size_t n = 2000;
  std::mt19937 random(3);
  Sender sender(GetParam().options, n);
  std::normal_distribution<float> values(0.5f, 1.0f);
  const auto largest_kept = [&](int steps) {
    double largest = 0;
    for (int step = 0; step < steps; ++step) {
      Floats x(n);
      for (float& value : x) value = values(random);
      sender.Send(x);
      for (float e : sender.encoder().State(0)) largest = std::max<double>(largest, std::abs(e));
    }
    return largest;
  };
  const double early = largest_kept(300);
  EXPECT_LT(largest_kept(1000), 2 * early);
}

CompressionOptions Following(CompressionOptions options) {
  options.feedback = Feedback::kFollow;
  return options;
}

TEST_P(FeedbackOf, AReceiverOfVersionsHasTheBitsOfTheStateWhateverVersionsAreLeftOut) {
  for (size_t n : {1, 50, 1024, 3333, 20000}) {
    std::mt19937 random(static_cast<uint32_t>(n));
    Sender sender(Following(GetParam().options), n);
    Floats weights = Gradient(n, &random), has = weights;
    ASSERT_TRUE(sender.encoder().Restore({weights}).ok());
    for (int version = 0; version < 60; ++version) {
      const Floats update = Gradient(n, &random);
      for (size_t i = 0; i < n; ++i) weights[i] -= 0.05f * update[i];
      if (version % 3 == 1) continue;
      sender.Send(weights).AddTo(has.data(), has.data());
      ASSERT_EQ(std::memcmp(has.data(), sender.encoder().State(0).data(), 4 * n), 0) << version;
    }
  }
}

TEST_P(FeedbackOf, AReceiverReachesAVersionThatIsSentAgainAndAgain) {
  const size_t n = 3000;
  std::mt19937 random(4);
  Sender sender(Following(GetParam().options), n);
  const Floats first = Gradient(n, &random), last = Gradient(n, &random);
  Floats has = first;
  ASSERT_TRUE(sender.encoder().Restore({first}).ok());
  const auto distance = [&] {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += std::abs(double{last[i]} - has[i]);
    return sum;
  };
  const double before = distance();
  for (int step = 0; step < 400; ++step) sender.Send(last).AddTo(has.data(), has.data());
  EXPECT_LT(distance(), before * GetParam().rest);
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, FeedbackOf,
    testing::Values(Case{"fp16", {.compression = Compression::kFloat16}},
                    Case{"bf16", {.compression = Compression::kBFloat16}},
                    Case{"int8", {.compression = Compression::kInt8}},
                    Case{"one_bit", {.compression = Compression::kOneBit}, 0.1},
                    Case{"top_k", {.compression = Compression::kTopK, .density = 0.05}},
                    Case{"top_half", {.compression = Compression::kTopK, .density = 0.5}}),
    [](const auto& info) { return info.param.name; });

TEST(DgcAccounts, WhatWasSentAndWhatIsKeptIsTheMomentumOfEveryStep) {
  for (size_t n : {50, 3333, 20000}) {
    std::mt19937 random(static_cast<uint32_t>(n));
    const float m = 0.9f;
    Sender sender({.compression = Compression::kDgc, .density = 0.02, .momentum = m}, n);
    Floats u(n), decoded(n);
    Doubles momenta(n), received(n), bound(n);
    for (int step = 0; step < 100; ++step) {
      const Floats x = Gradient(n, &random);
      const Floats v(sender.encoder().State(0).begin(), sender.encoder().State(0).end());
      sender.Send(x).WriteTo(decoded.data());
      for (size_t i = 0; i < n; ++i) {
        u[i] = m * u[i] + x[i];
        momenta[i] += u[i];
        bound[i] += kHalfUnit * std::abs(double{v[i]} + u[i]);
        received[i] += decoded[i];
        if (decoded[i] == 0) continue;
        ASSERT_EQ(decoded[i], v[i] + u[i]);
        ASSERT_EQ(sender.encoder().State(0)[i], 0.0f);
        u[i] = 0;
      }
      const auto kept = sender.encoder().State(1);
      ASSERT_TRUE(std::equal(u.begin(), u.end(), kept.begin())) << "step " << step;
    }
    for (size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(received[i] + sender.encoder().State(0)[i], momenta[i], bound[i] * (1 + 1e-6));
    }
  }
}

}  // namespace
}  // namespace strata::kernels
