// Bytes per second of the CPU's kernels beside those of STREAM's triad over the same footprint,
// both timed alternately in one run. `share` is what counts: absolute figures differ from machine
// to machine, and from minute to minute on a shared one. Bytes are counted as STREAM counts them,
// each vector that is read or written once; a kernel that writes over what it has read (an
// optimizer's state) spares the memory a transfer and may pass the triad. Values are checked first.
//
//   bazel run -c opt //kernels:kernels_benchmark
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/reference.h"

// ThreadSanitizer cannot run the resolvers that target_clones makes.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define STRATA_WIDEST __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define STRATA_WIDEST __attribute__((optimize("O3")))
#endif

namespace strata::kernels {

STRATA_WIDEST void Triad(const float* __restrict b, const float* __restrict c, float* __restrict a,
                         size_t n) {
  for (size_t i = 0; i < n; ++i) a[i] = b[i] + 0.5f * c[i];
}

namespace {

using Clock = std::chrono::steady_clock;

// Aligned like the pool's buffers everywhere else.
struct AlignedDelete {
  void operator()(float* p) const { std::free(p); }
};
class Vector {
 public:
  explicit Vector(size_t n)
      : data_(static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64))),
        n_(n) {}
  float* data() const { return data_.get(); }
  bool SameBits(const Vector& other) const {
    return std::memcmp(data(), other.data(), n_ * sizeof(float)) == 0;
  }

 private:
  std::unique_ptr<float, AlignedDelete> data_;
  size_t n_;
};

std::vector<Vector> Vectors(size_t count, size_t n) {
  std::mt19937 random(1);
  std::vector<Vector> vectors;
  for (size_t j = 0; j < count; ++j) {
    vectors.emplace_back(n);
    for (size_t i = 0; i < n; ++i) {
      vectors[j].data()[i] = static_cast<float>(random() % 1000) * 1e-3f;
    }
  }
  return vectors;
}

// Times `kernel`, which moves `streams` vectors of n floats, and the triad, turn by turn.
template <typename Kernel>
void AgainstTriad(benchmark::State& state, size_t streams, size_t n, Kernel kernel) {
  const size_t triad_n = streams * n / 3 + 1;
  auto triad = Vectors(3, triad_n);
  double kernel_s = 0, triad_s = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    kernel();
    benchmark::ClobberMemory();
    const auto middle = Clock::now();
    Triad(triad[0].data(), triad[1].data(), triad[2].data(), triad_n);
    benchmark::ClobberMemory();
    const std::chrono::duration<double> took = middle - start, bound = Clock::now() - middle;
    state.SetIterationTime(took.count());
    kernel_s += took.count();
    triad_s += bound.count();
  }
  const double rounds = static_cast<double>(state.iterations());
  const double rate = rounds * 4.0 * streams * n / kernel_s;
  const double bound = rounds * 4.0 * 3 * triad_n / triad_s;
  state.counters["GB/s"] = rate / 1e9;
  state.counters["bound_GB/s"] = bound / 1e9;
  state.counters["share"] = rate / bound;
}

void BM_Sum(benchmark::State& state) {
  const size_t k = state.range(0), n = state.range(1);
  const auto inputs = Vectors(k, n);
  std::vector<const float*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  const Vector out(n), expected(n);
  Cpu().sum(pointers, out.data(), n);
  reference::Sum(pointers, expected.data(), n);
  if (!out.SameBits(expected)) return state.SkipWithError("the values are wrong");
  AgainstTriad(state, k + 1, n, [&] { Cpu().sum(pointers, out.data(), n); });
}

void BM_Optimize(benchmark::State& state, OptimizerKind kind) {
  const size_t n = state.range(0);
  OptimizerParams params;
  params.kind = kind;
  const OptimizerStep step = {.lr = 1e-3f, .decay = 5e-4f, .gradient_scale = 0.25f, .update = 3};
  // gradient, w_in, w_out, state0, state1
  const std::vector<Vector> got = Vectors(5, n), expected = Vectors(5, n);
  const auto update = [&](auto optimize, const std::vector<Vector>& v) {
    optimize(params, step, v[0].data(), v[1].data(), v[2].data(), v[3].data(), v[4].data(), n);
  };
  update(Cpu().optimize, got);
  update(reference::Optimize, expected);
  for (size_t i = 0; i < got.size(); ++i) {
    if (!got[i].SameBits(expected[i])) return state.SkipWithError("the values are wrong");
  }
  const size_t streams = 3 + 2 * StateVectors(kind);
  AgainstTriad(state, streams, n, [&] { update(Cpu().optimize, got); });
}

void BM_AllFinite(benchmark::State& state) {
  const size_t n = state.range(0);
  const auto x = Vectors(1, n);
  if (!Cpu().all_finite(x[0].data(), n)) return state.SkipWithError("the value is wrong");
  AgainstTriad(state, 1, n, [&] { benchmark::DoNotOptimize(Cpu().all_finite(x[0].data(), n)); });
}

// Odd and tiny (for the test), a chunk of 1 MiB, and 100 MiB, which no cache holds.
constexpr int64_t kTiny = 1003, kChunk = 262144, kLarge = 26214400;

BENCHMARK(BM_Sum)
    ->ArgNames({"inputs", "elements"})
    ->ArgsProduct({{2, 4, 8, 16}, {kTiny, kChunk}})
    ->Args({2, kLarge})
    ->Args({4, kLarge})
    ->UseManualTime();
BENCHMARK(BM_AllFinite)->Arg(kTiny)->Arg(kChunk)->Arg(kLarge)->UseManualTime();
#define STRATA_OPTIMIZER(name)                                 \
  BENCHMARK_CAPTURE(BM_Optimize, name, OptimizerKind::k##name) \
      ->Arg(kTiny)                                             \
      ->Arg(kChunk)                                            \
      ->Arg(kLarge)                                            \
      ->UseManualTime()
STRATA_OPTIMIZER(Sgd);
STRATA_OPTIMIZER(MomentumSgd);
STRATA_OPTIMIZER(Nesterov);
STRATA_OPTIMIZER(Adam);
STRATA_OPTIMIZER(AdamW);

}  // namespace
}  // namespace strata::kernels

BENCHMARK_MAIN();
