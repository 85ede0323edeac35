// The codecs' part of kernels_benchmark: encoding with error feedback and without, checking, and
// decoding onto a vector, as bytes of vectors and payload against the triad. Of sparse payloads the
// whole encoder (accumulation, choice of the k largest, payload) and the addition, whose bytes are
// those of the payload and of the cache lines that it touches.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/wire/payload.h"
#include "kernels/against_triad.h"
#include "kernels/codec/checked_payload.h"
#include "kernels/codec/dense_codec.h"
#include "kernels/codec/encoder.h"
#include "kernels/kernels.h"
#include "kernels/reference_codecs.h"

namespace strata::kernels {
namespace {

using wire::Codec;

std::vector<float> Normal(size_t n, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> values(0, 1);
  std::vector<float> x(n);
  for (float& value : x) value = values(random);
  return x;
}

const DenseCodec& Reference(Codec codec) {
  static const Kernels kernels = {.codec = reference::Codecs()};
  return *DenseCodecOf(kernels, codec);
}

// Tested and expected vectors and payload of one dense codec.
struct Dense {
  const DenseCodec& tested;
  const DenseCodec& expected;
  size_t n;
  std::vector<float> x;
  Vector state, expected_state;
  std::vector<std::byte> payload, expected_payload;

  Dense(Codec codec, size_t n)
      : tested(*DenseCodecOf(Cpu(), codec)),
        expected(Reference(codec)),
        n(n),
        x(Normal(n, 1)),
        state(n),
        expected_state(n),
        payload(wire::EncodedBytesMax(codec, n)),
        expected_payload(payload.size()) {
    std::fill(state.data(), state.data() + n, 0.125f);
    std::fill(expected_state.data(), expected_state.data() + n, 0.125f);
  }
  // Encodes both ways; whether they agree.
  bool Encode(Feedback feedback) {
    return tested.encode(x.data(), feedback, state.data(), n, payload.data()) &&
           expected.encode(x.data(), feedback, expected_state.data(), n, expected_payload.data()) &&
           payload == expected_payload && state.SameBits(expected_state);
  }
  double Bytes(double vectors) const {
    return 4.0 * vectors * static_cast<double>(n) + static_cast<double>(payload.size());
  }
};

void BM_Encode(benchmark::State& state, Codec codec, Feedback feedback) {
  Dense c(codec, state.range(0));
  if (!c.Encode(feedback)) return state.SkipWithError("the values are wrong");
  AgainstTriad(state, c.Bytes(feedback == Feedback::kNone ? 1 : 3), [&] {
    c.tested.encode(c.x.data(), feedback, c.state.data(), c.n, c.payload.data());
  });
}

void BM_Check(benchmark::State& state, Codec codec) {
  Dense c(codec, state.range(0));
  const size_t good = wire::CodecBlocks(c.n);
  if (!c.Encode(Feedback::kNone) || c.tested.check(c.payload.data(), c.n) != good) {
    return state.SkipWithError("the value is wrong");
  }
  AgainstTriad(state, c.Bytes(0),
               [&] { benchmark::DoNotOptimize(c.tested.check(c.payload.data(), c.n)); });
}

void BM_DecodeAndAdd(benchmark::State& state, Codec codec) {
  Dense c(codec, state.range(0));
  bool right = c.Encode(Feedback::kNone);
  c.tested.decode(c.payload.data(), c.state.data(), c.state.data(), c.n);
  c.expected.decode(c.payload.data(), c.expected_state.data(), c.expected_state.data(), c.n);
  right = right && c.state.SameBits(c.expected_state);
  if (!right) return state.SkipWithError("the values are wrong");
  AgainstTriad(state, c.Bytes(2),
               [&] { c.tested.decode(c.payload.data(), c.state.data(), c.state.data(), c.n); });
}

struct Largest {
  size_t n, k;
  std::vector<float> x;
  std::unique_ptr<Encoder> encoder;
  std::vector<std::byte> payload;
  EncoderScratch scratch;

  Largest(Compression compression, size_t n, double density)
      : n(n),
        k(std::max<size_t>(1, static_cast<size_t>(density * static_cast<double>(n) + 0.5))),
        x(Normal(n, 2)),
        encoder(*Encoder::Create({.compression = compression, .density = density}, n, Cpu())),
        payload(encoder->encoded_bytes_max()) {}
  // The payload of the first step; true if it holds the k largest of x.
  bool Encode() {
    const auto bytes = encoder->Encode(x, &scratch, absl::MakeSpan(payload));
    if (!bytes.ok() || *bytes != 4 + 8 * k) return false;
    payload.resize(*bytes);
    std::vector<float> decoded(n), expected = x, sorted = x;
    CheckedPayload::Check(Cpu(), Codec::kSparse, n, payload)->WriteTo(decoded.data());
    for (float& value : sorted) value = std::abs(value);
    std::nth_element(sorted.begin(), sorted.begin() + (n - k), sorted.end());
    const float least = sorted[n - k];
    // How many of the least ones are among the largest: the first.
    auto ties = std::count(sorted.begin() + (n - k), sorted.end(), least);
    for (float& value : expected) {
      const bool chosen = std::abs(value) > least || (std::abs(value) == least && ties-- > 0);
      if (!chosen) value = 0.0f;
    }
    payload.resize(encoder->encoded_bytes_max());
    return decoded == expected;
  }
};

void BM_EncodeLargest(benchmark::State& state, Compression compression, double density) {
  Largest c(compression, state.range(0), density);
  if (!c.Encode()) return state.SkipWithError("the values are wrong");
  const double vectors = compression == Compression::kDgc ? 5 : 3;
  AgainstTriad(state, 4.0 * vectors * static_cast<double>(c.n) + 8.0 * static_cast<double>(c.k),
               [&] {
                 const auto bytes = c.encoder->Encode(c.x, &c.scratch, absl::MakeSpan(c.payload));
                 benchmark::DoNotOptimize(bytes.ok());
               });
}

void BM_AddSparse(benchmark::State& state, double density) {
  Largest c(Compression::kTopK, state.range(0), density);
  if (!c.Encode()) return state.SkipWithError("the values are wrong");
  c.payload.resize(4 + 8 * c.k);
  const auto checked = CheckedPayload::Check(Cpu(), Codec::kSparse, c.n, c.payload);
  if (!checked.ok()) return state.SkipWithError("the payload is refused");
  const Vector sum(c.n);
  std::fill(sum.data(), sum.data() + c.n, 0.0f);
  const double lines = static_cast<double>(std::min(c.k, c.n / 16 + 1));
  AgainstTriad(state, 8.0 * static_cast<double>(c.k) + 128.0 * lines,
               [&] { checked->AddTo(sum.data(), sum.data()); });
}

#define STRATA_SIZES ->Arg(kTiny)->Arg(kChunk)->Arg(kLarge)->UseManualTime()
// Those whose codes must be looked at, and that may do without feedback.
#define STRATA_ROUNDED(name)                                                        \
  BENCHMARK_CAPTURE(BM_Encode, name, Codec::k##name, Feedback::kNone) STRATA_SIZES; \
  BENCHMARK_CAPTURE(BM_Check, name, Codec::k##name) STRATA_SIZES;                   \
  STRATA_DENSE(name)
#define STRATA_DENSE(name)                                                                         \
  BENCHMARK_CAPTURE(BM_Encode, name##_residual, Codec::k##name, Feedback::kResidual) STRATA_SIZES; \
  BENCHMARK_CAPTURE(BM_Encode, name##_follow, Codec::k##name, Feedback::kFollow) STRATA_SIZES;     \
  BENCHMARK_CAPTURE(BM_DecodeAndAdd, name, Codec::k##name) STRATA_SIZES
STRATA_ROUNDED(Float16);
STRATA_ROUNDED(BFloat16);
STRATA_ROUNDED(Int8);
STRATA_DENSE(OneBit);
BENCHMARK_CAPTURE(BM_EncodeLargest, top_1_percent, Compression::kTopK, 0.01) STRATA_SIZES;
BENCHMARK_CAPTURE(BM_EncodeLargest, top_25_percent, Compression::kTopK, 0.25) STRATA_SIZES;
BENCHMARK_CAPTURE(BM_EncodeLargest, dgc_0_1_percent, Compression::kDgc, 0.001) STRATA_SIZES;
BENCHMARK_CAPTURE(BM_EncodeLargest, dgc_25_percent, Compression::kDgc, 0.25) STRATA_SIZES;
BENCHMARK_CAPTURE(BM_AddSparse, 1_percent, 0.01) STRATA_SIZES;
BENCHMARK_CAPTURE(BM_AddSparse, 25_percent, 0.25) STRATA_SIZES;

}  // namespace
}  // namespace strata::kernels
