#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/wire/payload.h"
#include "kernels/testing/conformance.h"
#include "kernels/testing/reference.h"

namespace strata::kernels {
namespace {

using wire::Codec;

struct Dense {
  Codec codec;
  DenseCodec CodecKernels::*functions;
};
constexpr Dense kDense[] = {{Codec::kFloat16, &CodecKernels::float16},
                            {Codec::kBFloat16, &CodecKernels::bfloat16},
                            {Codec::kInt8, &CodecKernels::int8},
                            {Codec::kOneBit, &CodecKernels::one_bit}};

// Kinds of values that formats round, scale or refuse differently.
enum class Values { kUniform, kAnyExponent, kNarrow, kDenormal, kHuge, kTies, kZeros };
constexpr Values kAllValues[] = {Values::kUniform,  Values::kAnyExponent, Values::kNarrow,
                                 Values::kDenormal, Values::kHuge,        Values::kTies,
                                 Values::kZeros};

float ValueOf(Values kind, std::mt19937* random) {
  const auto bits = static_cast<uint32_t>((*random)());
  const uint32_t sign = bits & 0x80000000, digits = bits & 0x7fffff;
  const uint32_t any = static_cast<uint32_t>((*random)());
  switch (kind) {
    case Values::kUniform:
      return std::uniform_real_distribution<float>(-2.0f, 2.0f)(*random);
    case Values::kAnyExponent:  // up to 2^120
      return std::bit_cast<float>(sign | any % 248 << 23 | digits);
    case Values::kNarrow:  // 2^-30 .. 1: normal, denormal and zero halves
      return std::bit_cast<float>(sign | (97 + any % 30) << 23 | digits);
    case Values::kDenormal:
      return std::bit_cast<float>(sign | digits >> any % 24);
    case Values::kHuge:  // up to what every format still represents
      return std::bit_cast<float>(sign | 253u << 23 | digits);
    case Values::kTies: {  // halfway between two halves, between two bfloats, or next to it
      const uint32_t tie = ((digits & 1) != 0 ? 0x1000 : 0x8000) + any / 17 % 3 - 1;
      return std::bit_cast<float>(sign | (110 + any % 17) << 23 | (digits & 0x7f0000) | tie);
    }
    case Values::kZeros:
      return std::bit_cast<float>(sign);
  }
  return 0;
}

void FillWith(Values kind, std::mt19937* random, Guarded* buffer) {
  for (size_t i = 0; i < buffer->size(); ++i) buffer->data()[i] = ValueOf(kind, random);
  // Between other values, zeros of both signs and the smallest denormals.
  for (size_t i = 5; i < buffer->size(); i += 31) buffer->data()[i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (size_t i = 9; i < buffer->size(); i += 57) {
    buffer->data()[i] = -std::numeric_limits<float>::denorm_min();
  }
}

std::vector<size_t> CodecSizes() {
  std::vector<size_t> sizes = Sizes();
  for (size_t n : {1023, 1024, 1025, 1056, 2047, 3072, 4100}) sizes.push_back(n);
  return sizes;
}

// One vector, encoded by the device and by the plain loop.
void ExpectSameEncoding(const Dense& dense, const Kernels& kernels, Values kind, size_t n,
                        Feedback feedback, std::mt19937* random) {
  const size_t bytes = wire::EncodedBytesMax(dense.codec, n);
  // If n is below 1024, or 4096 or more, both lie at the same place within 16 bytes.
  Guarded x(n, n % 4), state(n, (n + n / 1024) % 4), expected_state(n, 0);
  FillWith(kind, random, &x);
  FillWith(kind == Values::kHuge ? Values::kUniform : kind, random, &state);
  expected_state.CopyFrom(state);
  GuardedBytes payload(bytes, n % 7), expected(bytes, 0);
  const DenseCodec& tested = kernels.codec.*dense.functions;
  const bool encoded = (reference::Codecs().*dense.functions)
                           .encode(x.data(), feedback, expected_state.data(), n, expected.data());
  // Sums of magnitudes of huge elements are infinite.
  ASSERT_TRUE(encoded || (dense.codec == Codec::kOneBit && kind == Values::kHuge));
  ASSERT_EQ(tested.encode(x.data(), feedback, state.data(), n, payload.data()), encoded);
  ASSERT_TRUE(payload.SentinelsStand() && state.SentinelsStand());
  if (!encoded) return;
  ASSERT_TRUE(payload.SameBits(expected));
  ASSERT_TRUE(state.SameBits(expected_state));
  ASSERT_EQ(tested.check(payload.data(), n), wire::CodecBlocks(n));
}

TEST_P(KernelsConformance, EncodersWriteThePayloadAndStateOfThePlainLoop) {
  std::mt19937 random(11);
  for (const Dense& dense : kDense) {
    for (Values kind : kAllValues) {
      for (size_t n : CodecSizes()) {
        if (kind != Values::kAnyExponent && (n > 3000 || n % 3 == 1)) continue;
        for (Feedback feedback : {Feedback::kNone, Feedback::kResidual, Feedback::kFollow}) {
          SCOPED_TRACE(wire::ToString(dense.codec) + " values " + std::to_string(int(kind)) +
                       " n=" + std::to_string(n) + " feedback " + std::to_string(int(feedback)));
          ExpectSameEncoding(dense, kernels(), kind, n, feedback, &random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Writes an encoder's payload, and with `wild` also codes and scales that none would choose.
void FillPayload(const Dense& dense, bool wild, size_t n, std::mt19937* random,
                 GuardedBytes* payload) {
  Guarded x(n, 0);
  FillWith(Values::kAnyExponent, random, &x);
  const DenseCodec& reference = reference::Codecs().*dense.functions;
  ASSERT_TRUE(reference.encode(x.data(), Feedback::kNone, nullptr, n, payload->data()));
  if (!wild) return;
  const size_t scales = dense.codec == Codec::kBFloat16 ? 0 : 4 * wire::CodecBlocks(n);
  for (size_t i = scales; i < payload->size(); ++i) {
    const std::byte old = std::exchange(payload->data()[i], static_cast<std::byte>((*random)()));
    const size_t block = (i - scales) * n / (payload->size() - scales) / wire::kCodecBlock;
    if (reference.check(payload->data(), n) <= block) payload->data()[i] = old;
  }
}

TEST_P(KernelsConformance, DecodersWriteAndAddWhatThePlainLoopDoes) {
  std::mt19937 random(12);
  for (const Dense& dense : kDense) {
    for (size_t n : CodecSizes()) {
      GuardedBytes payload(wire::EncodedBytesMax(dense.codec, n), n % 5);
      FillPayload(dense, n < 1100, n, &random, &payload);
      const DenseCodec& tested = kernels().codec.*dense.functions;
      const DenseCodec& reference = reference::Codecs().*dense.functions;
      Guarded base(n, n % 3), out(n, n % 4), expected(n, 0);
      FillWith(Values::kUniform, &random, &base);
      const std::string what = wire::ToString(dense.codec) + " n=" + std::to_string(n);
      for (bool add : {false, true}) {
        tested.decode(payload.data(), add ? base.data() : nullptr, out.data(), n);
        reference.decode(payload.data(), add ? base.data() : nullptr, expected.data(), n);
        ASSERT_TRUE(out.SameBits(expected)) << what << (add ? " added" : "");
        ASSERT_TRUE(out.SentinelsStand()) << what;
      }
      tested.decode(payload.data(), base.data(), base.data(), n);
      ASSERT_TRUE(base.SameBits(expected)) << what << " in place";
      ASSERT_TRUE(base.SentinelsStand()) << what;
    }
  }
}

TEST_P(KernelsConformance, EveryFiniteHalfDecodesToItsValue) {
  const size_t n = 65536;
  for (const Dense& dense : {kDense[0], kDense[1]}) {
    GuardedBytes payload(wire::EncodedBytesMax(dense.codec, n), 0);
    const bool scaled = dense.codec == Codec::kFloat16;
    const uint32_t infinite = scaled ? 0x7c00 : 0x7f80;
    for (float scale : {1.0f, wire::kFloat16ScaleMin, wire::kFloat16ScaleMax}) {
      for (size_t block = 0; scaled && block < wire::CodecBlocks(n); ++block) {
        std::memcpy(payload.data() + 4 * block, &scale, 4);
      }
      for (uint32_t i = 0; i < n; ++i) {
        const auto half = static_cast<uint16_t>((i & 0x7fff) < infinite ? i : 0);
        std::memcpy(payload.data() + payload.size() - 2 * n + 2 * i, &half, 2);
      }
      Guarded out(n, 0), expected(n, 0);
      const DenseCodec& tested = kernels().codec.*dense.functions;
      ASSERT_EQ(tested.check(payload.data(), n), wire::CodecBlocks(n));
      tested.decode(payload.data(), nullptr, out.data(), n);
      (reference::Codecs().*dense.functions).decode(payload.data(), nullptr, expected.data(), n);
      EXPECT_TRUE(out.SameBits(expected)) << wire::ToString(dense.codec) << " scale " << scale;
      EXPECT_TRUE(kernels().all_finite(out.data(), n));
    }
  }
}

TEST_P(KernelsConformance, EncodersRefuseWhatNoCodeRepresentsAtEveryPlace) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Dense& dense : kDense) {
    for (size_t n : {1, 33, 64, 1024, 1037}) {
      std::vector<std::byte> payload(wire::EncodedBytesMax(dense.codec, n));
      Guarded x(n, 1), state(n, 2);
      std::fill(x.data(), x.data() + n, 0.25f);
      const DenseCodec& tested = kernels().codec.*dense.functions;
      for (size_t at = 0; at<n; at += n> 100 ? 7 : 1) {
        for (float bad : {kInfinity, -kInfinity, kNan, -kNan}) {
          x.data()[at] = bad;
          for (Feedback feedback : {Feedback::kNone, Feedback::kResidual, Feedback::kFollow}) {
            std::fill(state.data(), state.data() + n, -0.25f);
            EXPECT_FALSE(tested.encode(x.data(), feedback, state.data(), n, payload.data()))
                << at << " of " << n;
          }
          x.data()[at] = 0.25f;
        }
      }
    }
  }
}

TEST_P(KernelsConformance, EncodersRoundTheLargestFloatsOrRefuseThem) {
  std::vector<std::byte> payload(64);
  struct Limit {
    Codec codec;
    uint32_t largest;  // bits of the last one that is encoded
  };
  for (const Limit& limit :
       {Limit{Codec::kFloat16, 0x7f7fefff}, Limit{Codec::kBFloat16, 0x7f7f7fff},
        Limit{Codec::kInt8, 0x7f7fffff}, Limit{Codec::kOneBit, 0x7f7fffff}}) {
    const DenseCodec& tested = kernels().codec.*kDense[int(limit.codec) - 1].functions;
    const float largest = std::bit_cast<float>(limit.largest);
    float out;
    ASSERT_TRUE(tested.encode(&largest, Feedback::kNone, nullptr, 1, payload.data()));
    ASSERT_EQ(tested.check(payload.data(), 1), 1u);
    tested.decode(payload.data(), nullptr, &out, 1);
    EXPECT_NEAR(out / largest, 1.0f, 0.01f);
    const float next = std::bit_cast<float>(limit.largest + 1);
    EXPECT_FALSE(tested.encode(&next, Feedback::kNone, nullptr, 1, payload.data()))
        << wire::ToString(limit.codec);
  }
}

TEST_P(KernelsConformance, ChecksFindTheBlockOfEveryBadCodeAndScale) {
  std::mt19937 random(13);
  for (const Dense& dense : kDense) {
    const size_t n = 3 * wire::kCodecBlock + 77;
    GuardedBytes payload(wire::EncodedBytesMax(dense.codec, n), 3);
    FillPayload(dense, false, n, &random, &payload);
    const DenseCodec& tested = kernels().codec.*dense.functions;
    const DenseCodec& reference = reference::Codecs().*dense.functions;
    for (size_t at = 0; at < payload.size(); ++at) {
      const std::byte good = payload.data()[at];
      for (int bad : {0x00, 0x01, 0x7c, 0x7f, 0x80, 0xff}) {
        payload.data()[at] = static_cast<std::byte>(bad);
        ASSERT_EQ(tested.check(payload.data(), n), reference.check(payload.data(), n))
            << wire::ToString(dense.codec) << " byte " << at << " is " << bad;
      }
      payload.data()[at] = good;
    }
  }
}

// The ways of top-k, DGC and of following versions.
enum class Way { kTopK, kDgc, kFollow };
constexpr Way kWays[] = {Way::kTopK, Way::kDgc, Way::kFollow};

struct SparseBuffers {
  Guarded x, state, momentum;
  std::vector<uint32_t> indices, bits;

  // Multiples of 1/4, so that many reach a threshold exactly, and the smallest of all. Where 3
  // divides n all lie at the same place within 16 bytes.
  SparseBuffers(size_t n, size_t shift)
      : x(n, shift),
        state(n, (shift + (n % 3 == 0 ? 0 : 1)) % 4),
        momentum(n, (shift + (n % 3 == 0 ? 0 : 2)) % 4),
        indices(n + kCandidateSlack),
        bits(n + kCandidateSlack) {
    std::mt19937 random(static_cast<uint32_t>(n));
    for (Guarded* buffer : {&x, &state, &momentum}) {
      FillWith(Values::kUniform, &random, buffer);
      for (size_t i = 0; i < n; ++i) buffer->data()[i] = std::round(4 * buffer->data()[i]) / 4;
    }
    for (size_t i = 3; i < n; i += 11) {
      x.data()[i] = -std::numeric_limits<float>::denorm_min();
      state.data()[i] = momentum.data()[i] = 0;
    }
  }
  Accumulators Of(Way way) {
    return {.feedback = way == Way::kFollow ? Feedback::kFollow : Feedback::kResidual,
            .state = state.data(),
            .momentum = way == Way::kDgc ? momentum.data() : nullptr,
            .factor = 0.5f};
  }
  Candidates To() { return {indices.data(), bits.data()}; }
  // True if the first `count` candidates are the same.
  bool SameCandidates(const SparseBuffers& other, size_t count) const {
    return std::equal(indices.begin(), indices.begin() + count, other.indices.begin()) &&
           std::equal(bits.begin(), bits.begin() + count, other.bits.begin());
  }
  bool SameBits(SparseBuffers& other) {
    return state.SameBits(other.state) && momentum.SameBits(other.momentum);
  }
};

std::vector<uint32_t> Thresholds() {
  std::vector<uint32_t> thresholds = {1, 2, 0x7f800000, 0x80000000};
  for (float value : {0.75f, 1.0f, 1.9f, 100.0f}) {
    thresholds.push_back(std::bit_cast<uint32_t>(value));
  }
  return thresholds;
}

TEST_P(KernelsConformance, AccumulationAndCandidatesAreThoseOfThePlainLoop) {
  const SparseCodec& reference = reference::Codecs().sparse;
  for (Way way : kWays) {
    for (size_t n : CodecSizes()) {
      for (uint32_t threshold : Thresholds()) {
        if (n > 5000 && threshold > 1) continue;
        SparseBuffers got(n, n % 3 == 0 ? 0 : n % 4), expected(n, 0);
        const size_t count =
            reference.accumulate(expected.x.data(), expected.Of(way), threshold, expected.To(), n);
        ASSERT_EQ(
            kernels().codec.sparse.accumulate(got.x.data(), got.Of(way), threshold, got.To(), n),
            count);
        ASSERT_TRUE(got.SameCandidates(expected, count)) << n;
        ASSERT_TRUE(got.SameBits(expected)) << n;
        ASSERT_TRUE(got.state.SentinelsStand() && got.momentum.SentinelsStand()) << n;
        if (way == Way::kFollow) continue;
        std::fill(got.bits.begin(), got.bits.end(), 0);
        ASSERT_EQ(kernels().codec.sparse.select(got.state.data(), threshold, got.To(), n), count);
        ASSERT_TRUE(got.SameCandidates(expected, count)) << n;
      }
    }
  }
}

TEST_P(KernelsConformance, CandidatesAreCountedAndKeptAsByThePlainLoop) {
  const SparseCodec &tested = kernels().codec.sparse, &reference = reference::Codecs().sparse;
  for (size_t n : CodecSizes()) {
    if (n > 5000) continue;
    SparseBuffers all(n, 0);
    ASSERT_LE(reference.accumulate(all.x.data(), all.Of(Way::kTopK), 1, all.To(), n), n);
    for (uint32_t low : Thresholds()) {
      ASSERT_EQ(tested.count(all.bits.data(), n, low), reference.count(all.bits.data(), n, low));
      SparseBuffers got = all, expected = all;
      const size_t count = reference.keep(expected.To(), n, low);
      ASSERT_EQ(tested.keep(got.To(), n, low), count);
      ASSERT_TRUE(got.SameCandidates(expected, count)) << n;
      for (uint32_t high : Thresholds()) {
        if (n > 40 && high != low + 1 && high < 0x7f800000) continue;
        got.bits = all.bits;
        expected.bits = all.bits;
        const size_t inside =
            reference.between(all.bits.data(), n, low, high, expected.bits.data());
        ASSERT_EQ(tested.between(all.bits.data(), n, low, high, got.bits.data()), inside);
        ASSERT_TRUE(got.SameCandidates(expected, std::min(inside, count))) << n;
        got.bits = all.bits;
        ASSERT_EQ(tested.between(got.bits.data(), n, low, high, got.bits.data()), inside);
        ASSERT_TRUE(std::equal(got.bits.begin(), got.bits.begin() + inside, expected.bits.begin()));
      }
    }
  }
}

TEST_P(KernelsConformance, SamplesAreWhatAccumulationWouldGive) {
  for (Way way : kWays) {
    for (size_t n : {0, 100, 255, 256, 1000, 4099, 70001, 140003}) {
      SparseBuffers got(n, 1), expected(n, 0);
      std::vector<uint32_t> sample(kSampleMax), expected_sample(kSampleMax);
      const size_t count =
          kernels().codec.sparse.sample(got.x.data(), got.Of(way), sample.data(), n);
      EXPECT_EQ(count, SampleCount(n));
      EXPECT_EQ(reference::Codecs().sparse.sample(expected.x.data(), expected.Of(way),
                                                  expected_sample.data(), n),
                count);
      EXPECT_EQ(sample, expected_sample) << n;
      EXPECT_TRUE(got.SameBits(expected));
    }
  }
}

TEST_P(KernelsConformance, IndicesThatDoNotAscendOrAreOutOfRangeAreFoundAtEveryPlace) {
  for (size_t count : {0, 1, 2, 3, 15, 16, 17, 33, 100}) {
    std::vector<uint32_t> indices(count + 1);  // one more, so that there always is an address
    for (size_t j = 0; j < count; ++j) indices[j] = static_cast<uint32_t>(3 * j + 1);
    const size_t n = count == 0 ? 1 : indices[count - 1] + 1;
    const auto ascend = [&](size_t below) {
      std::vector<std::byte> bytes(4 * count + 3);
      std::memcpy(bytes.data() + 3, indices.data(), 4 * count);
      return kernels().codec.sparse.indices_ascend(bytes.data() + 3, count, below);
    };
    EXPECT_TRUE(ascend(n));
    EXPECT_EQ(ascend(n - 1), count == 0);
    for (size_t j = 0; j < count; ++j) {
      const uint32_t good = indices[j];
      for (uint32_t bad : {good - 3, good + 3, uint32_t{0xffffffff}, good + 0x80000000u}) {
        indices[j] = bad;
        EXPECT_EQ(ascend(n), count == 1 && bad < n) << j << " of " << count << " is " << bad;
      }
      indices[j] = good;
    }
  }
}

}  // namespace
}  // namespace strata::kernels
