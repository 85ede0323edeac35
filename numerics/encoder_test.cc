#include "numerics/encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/diverged.h"
#include "gtest/gtest.h"
#include "numerics/checked_payload.h"

namespace strata::numerics {

namespace {

using Floats = std::vector<float>;

constexpr Compression kAll[] = {Compression::kNone, Compression::kFloat16, Compression::kBFloat16,
                                Compression::kInt8, Compression::kOneBit,  Compression::kTopK,
                                Compression::kDgc};

std::unique_ptr<Encoder> Make(const CompressionOptions& options, size_t elements) {
  auto encoder = Encoder::Create(options, elements, kernels::Cpu());
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return *std::move(encoder);
}

struct Encoded {
  absl::Status status;
  std::vector<std::byte> payload;
  Floats decoded;
};

Encoded Encode(Encoder* encoder, const Floats& x) {
  EncoderScratch scratch;
  Encoded result;
  result.payload.resize(encoder->encoded_bytes_max());
  const auto bytes = encoder->Encode(x, &scratch, absl::MakeSpan(result.payload));
  result.status = bytes.status();
  if (!bytes.ok()) return result;
  result.payload.resize(*bytes);
  const auto checked =
      CheckedPayload::Check(kernels::Cpu(), encoder->codec(), x.size(), result.payload);
  EXPECT_TRUE(checked.ok()) << checked.status();
  result.decoded.resize(x.size());
  if (checked.ok()) checked->WriteTo(result.decoded.data());
  return result;
}

Floats Normal(size_t n, int seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0, deviation);
  Floats x(n);
  for (float& value : x) value = values(random);
  return x;
}

Floats StateOf(const Encoder& encoder, int vector) {
  const auto state = encoder.State(vector);
  return Floats(state.begin(), state.end());
}

TEST(Encoder, WithoutCompressionThePayloadIsTheVector) {
  const Floats x = Normal(100, 1);
  auto encoder = Make({}, x.size());
  const Encoded got = Encode(encoder.get(), x);
  ASSERT_EQ(got.payload.size(), 400u);
  EXPECT_EQ(std::memcmp(got.payload.data(), x.data(), 400), 0);
}

TEST(Encoder, HalvesAreRoundedToNearestEvenAndWhatTheyLackIsKept) {
  // Blocks of largest 1.0 are scaled by 2^14; halves have 11 digits.
  const Floats x = {1.0f,     1.0f + 0x1p-11f, 1.0f + 0x3p-11f, -(1.0f + 0x1p-11f + 0x1p-20f),
                    0x1p-38f, 0x1p-39f};
  const Floats rounded = {1.0f, 1.0f, 1.0f + 0x1p-9f, -(1.0f + 0x1p-10f), 0x1p-38f, 0.0f};
  auto encoder = Make({.compression = Compression::kFloat16}, x.size());
  EXPECT_EQ(Encode(encoder.get(), x).decoded, rounded);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(encoder->State(0)[i], x[i] - rounded[i]) << i;

  auto brain = Make({.compression = Compression::kBFloat16}, 3);
  EXPECT_EQ(
      Encode(brain.get(), {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1p-8f + 0x1p-20f}).decoded,
      Floats({1.0f, 1.0f + 0x1p-6f, 1.0f + 0x1p-7f}));
}

TEST(Encoder, HalvesOfVectorsOfAnyMagnitudeKeepElevenDigits) {
  for (int exponent = -120; exponent <= 126; exponent += 3) {
    const Floats x = Normal(1500, exponent + 200, std::ldexp(0.25f, exponent));
    auto encoder = Make(
        {.compression = Compression::kFloat16, .feedback = kernels::Feedback::kNone}, x.size());
    const Encoded got = Encode(encoder.get(), x);
    ASSERT_TRUE(got.status.ok()) << got.status;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(std::abs(got.decoded[i] - x[i]),
                std::max(std::ldexp(std::abs(x[i]), -11), std::ldexp(1.0f, exponent - 36)))
          << exponent;
    }
  }
}

TEST(Encoder, Int8IsWrongByAtMostHalfTheScale) {
  for (int seed = 0; seed < 20; ++seed) {
    const Floats x = Normal(2500, seed, std::ldexp(1.0f, seed * 10 - 100));
    auto encoder =
        Make({.compression = Compression::kInt8, .feedback = kernels::Feedback::kNone}, x.size());
    const Encoded got = Encode(encoder.get(), x);
    for (size_t i = 0; i < x.size(); ++i) {
      float scale;
      std::memcpy(&scale, got.payload.data() + i / wire::kCodecBlock * 4, sizeof scale);
      const size_t first = i / wire::kCodecBlock * wire::kCodecBlock;
      const size_t last = std::min(x.size(), first + wire::kCodecBlock);
      float largest = 0;
      for (size_t j = first; i == first && j < last; ++j) {
        largest = std::max(largest, std::abs(x[j]));
      }
      // With 7 binary digits before the point, rounding of p / scale costs 2^-16 at most.
      EXPECT_LE(std::abs(double{got.decoded[i]} - x[i]), double{scale} * (0.5 + 0x1p-16));
      if (i == first) {
        EXPECT_GE(scale, largest / 127.0f * (1 - 0x1p-22f));
        EXPECT_LE(scale, largest / 127.0f * (1 + 0x1p-14f));
      }
    }
  }
}

TEST(Encoder, OneBitSendsTheMeanMagnitudeWithEachSign) {
  auto encoder = Make({.compression = Compression::kOneBit}, 4);
  EXPECT_EQ(Encode(encoder.get(), {1.0f, -2.0f, 4.0f, 0.0f}).decoded,
            Floats({1.75f, -1.75f, 1.75f, 1.75f}));
  EXPECT_EQ(StateOf(*encoder, 0), Floats({-0.75f, -0.25f, 2.25f, -1.75f}));
  // The next vector is zero: what was kept, alone.
  EXPECT_EQ(Encode(encoder.get(), Floats(4)).decoded, Floats({-1.25f, -1.25f, 1.25f, -1.25f}));
  // Vectors of zeros stay so, and the smallest float is kept, not sent.
  auto zeros = Make({.compression = Compression::kOneBit}, 2000);
  EXPECT_EQ(Encode(zeros.get(), Floats(2000)).decoded, Floats(2000));
  EXPECT_EQ(StateOf(*zeros, 0), Floats(2000));
  EXPECT_EQ(Encode(zeros.get(), Floats(2000, 0x1p-149f)).decoded, Floats(2000));
  EXPECT_EQ(StateOf(*zeros, 0), Floats(2000, 0x1p-149f));
}

TEST(Encoder, TopKSendsExactlyTheLargestAndOfEqualOnesThoseOfLowestIndex) {
  std::mt19937 random(4);
  for (size_t n : {5, 100, 1023, 5000, 70001}) {
    for (double density : {0.001, 0.01, 0.25, 0.5}) {
      // Many ties: magnitudes are small integers.
      Floats x = Normal(n, static_cast<int>(n), 3.0f);
      if (n != 5000) {
        for (float& value : x) value = std::round(value);
      }
      std::vector<size_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return std::abs(x[a]) > std::abs(x[b]); });
      const size_t k = std::min<size_t>(std::max<int64_t>(1, std::llround(density * n)),
                                        wire::SparseCountMax(n));
      Floats sent(n), kept = x;
      for (size_t j = 0; j < k; ++j) sent[order[j]] = std::exchange(kept[order[j]], 0.0f);
      auto encoder = Make({.compression = Compression::kTopK, .density = density}, n);
      const Encoded got = Encode(encoder.get(), x);
      const size_t nonzero = n - std::count(sent.begin(), sent.end(), 0.0f);
      EXPECT_EQ(got.payload.size(), 4 + 8 * nonzero);
      EXPECT_EQ(got.decoded, sent) << n << " " << density;
      EXPECT_EQ(StateOf(*encoder, 0), kept) << n << " " << density;
    }
  }
}

TEST(Encoder, TopKIsExactWhereTheSampleMisleads) {
  // The places that are sampled hold large elements, and the others small ones; then nothing but a
  // few elements at places that are not sampled.
  const size_t n = 100000, runs = kernels::SampleCount(n) / kernels::kSampleRun, stride = n / runs;
  Floats x(n, 0.001f);
  for (size_t run = 0; run < runs; ++run) {
    for (size_t j = 0; j < kernels::kSampleRun; ++j) x[run * stride + j] = 1.0f;
  }
  auto encoder = Make({.compression = Compression::kTopK, .density = 0.2}, n);
  Encoded got = Encode(encoder.get(), x);
  EXPECT_EQ(got.payload.size(), 4 + 8 * 20000u);
  EXPECT_EQ(std::count(got.decoded.begin(), got.decoded.end(), 1.0f), kernels::kSampleMax);

  Floats few(n);
  for (size_t i = 20; i < n; i += stride) few[i] = -2.0f;
  auto other = Make({.compression = Compression::kTopK, .density = 0.2}, n);
  EXPECT_EQ(Encode(other.get(), few).decoded, few);
  EXPECT_EQ(Encode(other.get(), Floats(n)).payload.size(), 4u);

  auto following = Make(
      {.compression = Compression::kTopK, .feedback = kernels::Feedback::kFollow, .density = 0.2},
      n);
  got = Encode(following.get(), x);
  EXPECT_EQ(got.payload.size(), 4 + 8 * 20000u);
  EXPECT_EQ(std::count(got.decoded.begin(), got.decoded.end(), 1.0f), kernels::kSampleMax);
  EXPECT_EQ(StateOf(*following, 0), got.decoded);
}

TEST(Encoder, DgcCorrectsTheMomentumAndMasksWhatIsSent) {
  const size_t n = 6;
  auto encoder = Make({.compression = Compression::kDgc, .density = 0.17, .momentum = 0.5f}, n);
  EXPECT_EQ(Encode(encoder.get(), {1, 2, 4, -8, 0, 0}).decoded, Floats({0, 0, 0, -8, 0, 0}));
  EXPECT_EQ(StateOf(*encoder, 0), Floats({1, 2, 4, 0, 0, 0}));  // v
  EXPECT_EQ(StateOf(*encoder, 1), Floats({1, 2, 4, 0, 0, 0}));  // u
  // u = 0.5 u + x, v = v + u
  EXPECT_EQ(Encode(encoder.get(), {1, 0, 0, 1, 0, 0}).decoded, Floats({0, 0, 6, 0, 0, 0}));
  EXPECT_EQ(StateOf(*encoder, 0), Floats({2.5f, 3, 0, 1, 0, 0}));
  EXPECT_EQ(StateOf(*encoder, 1), Floats({1.5f, 1, 0, 1, 0, 0}));
}

TEST(Encoder, DgcWarmsUpOverFiveEpochs) {
  const double expected[] = {0.25, 0.0625, 0.016, 0.004, 0.001, 0.001};
  for (int epoch = 0; epoch < 6; ++epoch) EXPECT_EQ(DgcDensity(epoch, 0.001), expected[epoch]);
  EXPECT_EQ(DgcDensity(3, 0.01), 0.01);
  auto encoder = Make({.compression = Compression::kDgc, .density = DgcDensity(0, 0.001)}, 4000);
  const Floats x = Normal(4000, 9);
  EXPECT_EQ(Encode(encoder.get(), x).payload.size(), 4 + 8 * 1000u);
  ASSERT_TRUE(encoder->SetDensity(DgcDensity(4, 0.001)).ok());
  EXPECT_EQ(Encode(encoder.get(), x).payload.size(), 4 + 8 * 4u);
  EXPECT_EQ(encoder->SetDensity(0).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Encoder, GoesOnFromARestoredStateWithTheSameBytes) {
  const size_t n = 3000;
  for (Compression compression : kAll) {
    auto first = Make({.compression = compression}, n),
         second = Make({.compression = compression}, n);
    Encode(first.get(), Normal(n, 1));
    Encode(first.get(), Normal(n, 2));
    std::vector<Floats> state;
    std::vector<absl::Span<const float>> spans;
    const int vectors = StateVectors({.compression = compression});
    for (int i = 0; i < vectors; ++i) state.push_back(StateOf(*first, i));
    for (const Floats& vector : state) spans.emplace_back(vector);
    ASSERT_TRUE(second->Restore(spans).ok());
    EXPECT_EQ(Encode(first.get(), Normal(n, 3)).payload,
              Encode(second.get(), Normal(n, 3)).payload);
    for (int i = 0; i < vectors; ++i) EXPECT_EQ(StateOf(*first, i), StateOf(*second, i));
  }
}

TEST(Encoder, AStateThatDoesNotFitIsRefusedAndChangesNothing) {
  auto encoder = Make({.compression = Compression::kInt8}, 3);
  Encode(encoder.get(), {1.0f, 0.3f, 0.7f});
  const Floats before = StateOf(*encoder, 0);
  const Floats good(3), small(2), bad = {0, std::numeric_limits<float>::quiet_NaN(), 0};
  for (const auto& state :
       std::vector<std::vector<absl::Span<const float>>>{{good, good}, {small}, {bad}}) {
    EXPECT_EQ(encoder->Restore(state).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(StateOf(*encoder, 0), before);
  ASSERT_TRUE(encoder->Restore({}).ok());
  EXPECT_EQ(StateOf(*encoder, 0), good);
}

TEST(Encoder, NanAndInfinityAreReportedAndEndItUntilItsStateIsRestored) {
  for (Compression compression : kAll) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      auto encoder = Make({.compression = compression}, 2000);
      Floats x = Normal(2000, 5);
      EXPECT_TRUE(Encode(encoder.get(), x).status.ok());
      x[1234] = bad;
      const absl::Status status = Encode(encoder.get(), x).status;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(status.message(), std::isnan(bad) ? "element 1234 is nan" : "element 1234 is -inf");
      x[1234] = 0;
      EXPECT_EQ(Encode(encoder.get(), x).status.code(),
                StateVectors({compression}) == 0 ? absl::StatusCode::kOk
                                                 : absl::StatusCode::kFailedPrecondition);
      ASSERT_TRUE(encoder->Restore({}).ok());
      EXPECT_TRUE(Encode(encoder.get(), x).status.ok());
    }
  }
}

TEST(Encoder, SumsBeyondTheRangeOfTheFormatAreReported) {
  const Floats x(2000, std::numeric_limits<float>::max());
  for (Compression compression :
       {Compression::kFloat16, Compression::kBFloat16, Compression::kOneBit}) {
    auto encoder = Make({.compression = compression}, x.size());
    const absl::Status status = Encode(encoder.get(), x).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(HasDiverged(status));
    EXPECT_EQ(status.message(), "elements, with the state, are too large for " +
                                    wire::ToString(WireCodec(compression)));
  }
  auto encoder = Make({.compression = Compression::kTopK, .density = 0.1}, x.size());
  EXPECT_TRUE(Encode(encoder.get(), x).status.ok());
  EXPECT_EQ(Encode(encoder.get(), x).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(Encoder, OptionsOutOfRangeAreRefusedByName) {
  const auto error = [](const CompressionOptions& options) {
    return std::string(options.Validate().message());
  };
  EXPECT_EQ(error({.compression = Compression::kTopK, .density = 0}),
            "density is 0, not above 0 and at most 0.5");
  EXPECT_EQ(error({.compression = Compression::kDgc, .density = 0.6}),
            "density is 0.6, not above 0 and at most 0.5");
  EXPECT_EQ(error({.compression = Compression::kTopK, .density = std::nan("")}),
            "density is nan, not above 0 and at most 0.5");
  EXPECT_EQ(error({.compression = Compression::kDgc, .momentum = 1.0f}),
            "momentum is 1, not at least 0 and below 1");
  EXPECT_EQ(error({.compression = Compression::kOneBit, .feedback = kernels::Feedback::kNone}),
            "feedback is off, which 1-bit does not allow");
  EXPECT_EQ(error({.compression = Compression::kTopK, .feedback = kernels::Feedback::kNone}),
            "feedback is off, which sparse does not allow");
  EXPECT_EQ(error({.compression = Compression::kDgc, .feedback = kernels::Feedback::kFollow}),
            "DGC compresses gradients, not versions of weights");
  EXPECT_EQ(error({.compression = Compression::kInt8, .feedback = kernels::Feedback::kNone}), "");
  auto encoder = Make({.compression = Compression::kInt8}, 10);
  EncoderScratch scratch;
  std::vector<std::byte> small(13);
  EXPECT_EQ(encoder->Encode(Floats(10), &scratch, absl::MakeSpan(small)).status().message(),
            "10 elements and room for 13 bytes, not 10 elements and 14 bytes");
}

TEST(Encoder, VectorsOfNoneOneAndTwoElementsAreEncoded) {
  for (Compression compression : kAll) {
    for (size_t n : {0, 1, 2}) {
      auto encoder = Make({.compression = compression}, n);
      const Encoded got = Encode(encoder.get(), Floats(n, 0.5f));
      EXPECT_TRUE(got.status.ok()) << got.status;
      // int8 rounds its scale.
      if (n == 1) {
        EXPECT_NEAR(got.decoded[0], 0.5f, 0x1p-15f) << int(compression);
      }
    }
  }
}

// Error feedback: over many steps, the receiver's sum and the state of the encoder together are the
// sum of the inputs. All sums here are in double, so only the encoder's own additions round: p = x
// + e and e = p - decoded, each by half a unit in the last place.

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
      : encoder_(*Encoder::Create(options, n, kernels::Cpu())),
        payload_(encoder_->encoded_bytes_max()) {}

  // Encodes, and hands over the payload that a receiver would check.
  CheckedPayload Send(const Floats& x) {
    const auto bytes = encoder_->Encode(x, &scratch_, absl::MakeSpan(payload_));
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    auto checked = CheckedPayload::Check(kernels::Cpu(), encoder_->codec(), x.size(),
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
  options.feedback = kernels::Feedback::kFollow;
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

proto::Encoding Dgc(float density, float warmup_epochs) {
  proto::Encoding encoding;
  encoding.set_codec(proto::Encoding::DGC);
  encoding.set_density(density);
  encoding.set_momentum(0.75f);
  encoding.set_warmup_epochs(warmup_epochs);
  return encoding;
}

TEST(JobCompression, TakesOverWhatTheEncodingSays) {
  const CompressionOptions options = MakeCompression(Dgc(0.125f, 4), kernels::Feedback::kResidual);
  EXPECT_EQ(options.compression, Compression::kDgc);
  EXPECT_EQ(options.density, 0.125);
  EXPECT_EQ(options.momentum, 0.75f);
  EXPECT_EQ(options.feedback, kernels::Feedback::kResidual);
  EXPECT_EQ(MakeCompression(proto::Encoding(), kernels::Feedback::kFollow).compression,
            Compression::kNone);
}

TEST(JobCompression, KnowsThePayloadOfEachCodec) {
  const wire::Codec payloads[] = {
      wire::Codec::kNone,   wire::Codec::kFloat16, wire::Codec::kBFloat16, wire::Codec::kInt8,
      wire::Codec::kOneBit, wire::Codec::kSparse,  wire::Codec::kSparse};
  for (int codec = 0; codec <= proto::Encoding::Codec_MAX; ++codec) {
    proto::Encoding encoding;
    encoding.set_codec(static_cast<proto::Encoding::Codec>(codec));
    EXPECT_EQ(WireCodec(encoding), payloads[codec]) << codec;
  }
}

TEST(JobCompression, DgcComesDownByAQuarterOfItsWarmUp) {
  const proto::Encoding dgc = Dgc(0.001f, 8);
  EXPECT_EQ(DgcDensityAt(dgc, 0), 0.25);
  EXPECT_EQ(DgcDensityAt(dgc, 1.99), 0.25);
  EXPECT_EQ(DgcDensityAt(dgc, 2), 0.0625);
  EXPECT_EQ(DgcDensityAt(dgc, 4), 0.016);
  EXPECT_EQ(DgcDensityAt(dgc, 7.99), 0.004);
  EXPECT_EQ(DgcDensityAt(dgc, 8), 0.001f);
  EXPECT_EQ(DgcDensityAt(dgc, 100), 0.001f);
}

TEST(JobCompression, DgcIsNeverSparserThanAskedForAndMayHaveNoWarmUp) {
  EXPECT_EQ(DgcDensityAt(Dgc(0.125f, 4), 0), 0.25);
  EXPECT_EQ(DgcDensityAt(Dgc(0.125f, 4), 1), 0.125);
  EXPECT_EQ(DgcDensityAt(Dgc(0.125f, 0), 0), 0.125);
}

}  // namespace

}  // namespace strata::numerics
