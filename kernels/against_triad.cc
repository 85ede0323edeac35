#include "kernels/against_triad.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <random>

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

namespace {

double Median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

void AgainstTriad(benchmark::State& state, double bytes, const std::function<void()>& kernel) {
  using Clock = std::chrono::steady_clock;
  const size_t triad_n = static_cast<size_t>(bytes / 12) + 1;
  const auto triad = Vectors(3, triad_n);
  std::vector<double> kernel_s, triad_s;
  for (auto _ : state) {
    const auto start = Clock::now();
    kernel();
    benchmark::ClobberMemory();
    const auto middle = Clock::now();
    Triad(triad[0].data(), triad[1].data(), triad[2].data(), triad_n);
    benchmark::ClobberMemory();
    const std::chrono::duration<double> took = middle - start, bound = Clock::now() - middle;
    state.SetIterationTime(took.count());
    kernel_s.push_back(took.count());
    triad_s.push_back(bound.count());
  }
  const double rate = bytes / Median(kernel_s);
  const double bound = 12.0 * static_cast<double>(triad_n) / Median(triad_s);
  state.counters["GB/s"] = rate / 1e9;
  state.counters["bound_GB/s"] = bound / 1e9;
  state.counters["share"] = rate / bound;
}

}  // namespace strata::kernels
