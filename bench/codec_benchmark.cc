// Codecs: encoding with error feedback and without, checking, and decoding onto a vector. Of sparse
// payloads the whole encoder (accumulation, choice of the k largest, payload) and the addition,
// whose bytes are those of the payload and of the cache lines that it touches.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kernel_benchmarks.h"
#include "bench/stream_bound.h"
#include "common/wire/payload.h"
#include "kernels/kernels.h"
#include "kernels/testing/reference.h"
#include "numerics/checked_payload.h"
#include "numerics/encoder.h"

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
  return *numerics::FindDenseCodec(kernels, codec);
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
      : tested(*numerics::FindDenseCodec(Cpu(), codec)),
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
};

void RunEncode(benchmark::State& state, Codec codec, Feedback feedback, size_t n) {
  Dense c(codec, n);
  if (!c.Encode(feedback)) return state.SkipWithError("the values are wrong");
  const size_t states = feedback == Feedback::kNone ? 0 : 1;
  AgainstStream(
      state, {.n = n, .reads = 1, .updates = states, .payload_written = c.payload.size()},
      [&] { c.tested.encode(c.x.data(), feedback, c.state.data(), c.n, c.payload.data()); });
}

void RunCheck(benchmark::State& state, Codec codec, size_t n) {
  Dense c(codec, n);
  const size_t good = wire::CodecBlocks(c.n);
  if (!c.Encode(Feedback::kNone) || c.tested.check(c.payload.data(), c.n) != good) {
    return state.SkipWithError("the value is wrong");
  }
  AgainstStream(state, {.payload_read = c.payload.size()},
                [&] { benchmark::DoNotOptimize(c.tested.check(c.payload.data(), c.n)); });
}

void RunDecodeAndAdd(benchmark::State& state, Codec codec, size_t n) {
  Dense c(codec, n);
  bool right = c.Encode(Feedback::kNone);
  c.tested.decode(c.payload.data(), c.state.data(), c.state.data(), c.n);
  c.expected.decode(c.payload.data(), c.expected_state.data(), c.expected_state.data(), c.n);
  right = right && c.state.SameBits(c.expected_state);
  if (!right) return state.SkipWithError("the values are wrong");
  AgainstStream(state, {.n = n, .updates = 1, .payload_read = c.payload.size()},
                [&] { c.tested.decode(c.payload.data(), c.state.data(), c.state.data(), c.n); });
}

struct Largest {
  size_t n, k;
  std::vector<float> x;
  std::unique_ptr<numerics::Encoder> encoder;
  std::vector<std::byte> payload;
  numerics::EncoderScratch scratch;

  Largest(numerics::Compression compression, size_t n, double density)
      : n(n),
        k(std::max<size_t>(1, static_cast<size_t>(density * static_cast<double>(n) + 0.5))),
        x(Normal(n, 2)),
        encoder(
            *numerics::Encoder::Create({.compression = compression, .density = density}, n, Cpu())),
        payload(encoder->encoded_bytes_max()) {}
  // The payload of the first step; true if it holds the k largest of x.
  bool Encode() {
    const auto bytes = encoder->Encode(x, &scratch, absl::MakeSpan(payload));
    if (!bytes.ok() || *bytes != 4 + 8 * k) return false;
    payload.resize(*bytes);
    std::vector<float> decoded(n), expected = x, sorted = x;
    numerics::CheckedPayload::Check(Cpu(), Codec::kSparse, n, payload)->WriteTo(decoded.data());
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

void RunEncodeLargest(benchmark::State& state, numerics::Compression compression, double density,
                      size_t n) {
  Largest c(compression, n, density);
  if (!c.Encode()) return state.SkipWithError("the values are wrong");
  const size_t states = compression == numerics::Compression::kDgc ? 2 : 1;
  AgainstStream(state, {.n = n, .reads = 1, .updates = states, .payload_written = 8 * c.k}, [&] {
    const auto bytes = c.encoder->Encode(c.x, &c.scratch, absl::MakeSpan(c.payload));
    benchmark::DoNotOptimize(bytes.ok());
  });
}

void RunAddSparse(benchmark::State& state, double density, size_t n) {
  Largest c(numerics::Compression::kTopK, n, density);
  if (!c.Encode()) return state.SkipWithError("the values are wrong");
  c.payload.resize(4 + 8 * c.k);
  const auto checked = numerics::CheckedPayload::Check(Cpu(), Codec::kSparse, c.n, c.payload);
  if (!checked.ok()) return state.SkipWithError("the payload is refused");
  const Vector sum(c.n);
  std::fill(sum.data(), sum.data() + c.n, 0.0f);
  const size_t lines = std::min(c.k, c.n / 16 + 1);
  AgainstStream(state, {.n = 16 * lines, .updates = 1, .payload_read = 8 * c.k},
                [&] { checked->AddTo(sum.data(), sum.data()); });
}

}  // namespace

void RegisterCodecBenchmarks(const std::vector<BenchmarkSize>& sizes) {
  using benchmark::State;
  for (const BenchmarkSize& size : sizes) {
    const size_t n = size.elements;
    auto add = [&](const std::string& name, auto run) {
      benchmark::RegisterBenchmark(absl::StrCat(name, "/", size.name).c_str(), std::move(run))
          ->UseManualTime();
    };
    for (const auto& [name, codec] :
         {std::pair("fp16", Codec::kFloat16), std::pair("bf16", Codec::kBFloat16),
          std::pair("int8", Codec::kInt8), std::pair("one_bit", Codec::kOneBit)}) {
      const Codec of = codec;
      if (of != Codec::kOneBit) {  // whose codes need no look, and which needs feedback
        add(absl::StrCat("encode_", name),
            [=](State& state) { RunEncode(state, of, Feedback::kNone, n); });
        add(absl::StrCat("check_", name), [=](State& state) { RunCheck(state, of, n); });
      }
      add(absl::StrCat("encode_", name, "_residual"),
          [=](State& state) { RunEncode(state, of, Feedback::kResidual, n); });
      add(absl::StrCat("encode_", name, "_follow"),
          [=](State& state) { RunEncode(state, of, Feedback::kFollow, n); });
      add(absl::StrCat("decode_and_add_", name),
          [=](State& state) { RunDecodeAndAdd(state, of, n); });
    }
    for (double density : {0.01, 0.25}) {
      const std::string share = absl::StrCat("_", 100 * density, "%");
      add("encode_top_k" + share,
          [=](State& state) { RunEncodeLargest(state, numerics::Compression::kTopK, density, n); });
      add("add_sparse" + share, [=](State& state) { RunAddSparse(state, density, n); });
    }
    for (double density : {0.001, 0.25}) {
      add(absl::StrCat("encode_dgc_", 100 * density, "%"),
          [=](State& state) { RunEncodeLargest(state, numerics::Compression::kDgc, density, n); });
    }
  }
}

}  // namespace strata::kernels
