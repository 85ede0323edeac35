#include "bench/stream_bound.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>

// ThreadSanitizer cannot run the resolvers that target_clones makes.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define STRATA_WIDEST __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define STRATA_WIDEST __attribute__((optimize("O3")))
#endif

namespace strata::kernels {

// The loops that a bound is made of, over one block.
STRATA_WIDEST uint32_t Read(const float* __restrict a, size_t n) {
  const auto* bits = reinterpret_cast<const uint32_t*>(a);
  uint32_t any = 0;
  for (size_t i = 0; i < n; ++i) any |= bits[i];
  return any;
}
STRATA_WIDEST void Copy(const float* __restrict a, float* __restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = a[i];
}
STRATA_WIDEST void Add2(const float* __restrict a, const float* __restrict b, float* __restrict out,
                        size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}
STRATA_WIDEST void Add3(const float* const* in, float* __restrict out, size_t n) {
  const float* __restrict a = in[0], * __restrict b = in[1], * __restrict c = in[2];
  for (size_t i = 0; i < n; ++i) out[i] = (a[i] + b[i]) + c[i];
}
STRATA_WIDEST void Add4(const float* const* in, float* __restrict out, size_t n) {
  const float* __restrict a = in[0], * __restrict b = in[1], * __restrict c = in[2];
  const float* __restrict d = in[3];
  for (size_t i = 0; i < n; ++i) out[i] = (a[i] + b[i]) + (c[i] + d[i]);
}
STRATA_WIDEST void AddTo(const float* __restrict a, float* __restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = 0.5f * out[i] + a[i];
}
STRATA_WIDEST void Add4To(const float* const* in, float* __restrict out, size_t n) {
  const float* __restrict a = in[0], * __restrict b = in[1], * __restrict c = in[2];
  const float* __restrict d = in[3];
  for (size_t i = 0; i < n; ++i) out[i] += (a[i] + b[i]) + (c[i] + d[i]);
}

namespace {

// A block of all vectors stays in the first-level cache while it is worked on.
constexpr size_t kBlock = 1024;

class StreamLoop {
 public:
  explicit StreamLoop(const Traffic& traffic)
      : traffic_(traffic),
        read_(Vectors(traffic.reads, traffic.n)),
        updated_(Vectors(traffic.updates, traffic.n)),
        written_(Vectors(traffic.writes, traffic.n)),
        payload_in_(Vectors(1, traffic.payload_read / sizeof(float) + 1)),
        payload_out_(Vectors(1, traffic.payload_written / sizeof(float) + 1)),
        block_(Vectors(1, kBlock)) {}

  void Run() {
    for (size_t at = 0; at < traffic_.n; at += kBlock) {
      Vectorwise(at, std::min(kBlock, traffic_.n - at));
    }
    const size_t in = traffic_.payload_read / sizeof(float);
    if (in > 0) benchmark::DoNotOptimize(Read(payload_in_[0].data(), in));
    const size_t out = traffic_.payload_written / sizeof(float);
    for (size_t at = 0; at < out; at += kBlock) {
      Copy(block_[0].data(), payload_out_[0].data() + at, std::min(kBlock, out - at));
    }
  }

 private:
  void Vectorwise(size_t at, size_t n) {
    const float* in[16];
    for (size_t r = 0; r < read_.size(); ++r) in[r] = read_[r].data() + at;
    const float* last = read_.empty() ? block_[0].data() : in[read_.size() - 1];
    for (const Vector& vector : written_) Sum(in, vector.data() + at, n);
    for (const Vector& vector : updated_) AddTo(last, vector.data() + at, n);
    if (!written_.empty()) return;
    for (size_t r = 0; r + (updated_.empty() ? 0 : 1) < read_.size(); ++r) {
      benchmark::DoNotOptimize(Read(in[r], n));
    }
  }
  void Sum(const float* const* in, float* out, size_t n) {
    const size_t k = read_.size();
    if (k == 1) return Copy(in[0], out, n);
    if (k == 2) return Add2(in[0], in[1], out, n);
    if (k == 3) return Add3(in, out, n);
    Add4(in, out, n);
    for (size_t r = 4; r + 4 <= k; r += 4) Add4To(in + r, out, n);
  }

  const Traffic traffic_;
  const std::vector<Vector> read_, updated_, written_, payload_in_, payload_out_, block_;
};

// The nearest rank; see cli/bench/figures.h.
double Quantile(std::vector<double> values, double share) {
  const auto rank = std::ceil(share * static_cast<double>(values.size()));
  const auto at = values.begin() + (std::max<ptrdiff_t>(1, static_cast<ptrdiff_t>(rank)) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

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

double Traffic::Bytes() const {
  return static_cast<double>(sizeof(float) * n * (reads + 2 * updates + writes) + payload_read +
                             payload_written);
}

void AgainstStream(benchmark::State& state, const Traffic& traffic,
                   const std::function<void()>& kernel) {
  using Clock = std::chrono::steady_clock;
  StreamLoop loop(traffic);
  std::vector<double> kernel_us, loop_us, shares;
  for (auto _ : state) {
    const auto start = Clock::now();
    kernel();
    benchmark::ClobberMemory();
    const auto middle = Clock::now();
    loop.Run();
    benchmark::ClobberMemory();
    const std::chrono::duration<double, std::micro> took = middle - start;
    const std::chrono::duration<double, std::micro> bound = Clock::now() - middle;
    state.SetIterationTime(took.count() * 1e-6);
    kernel_us.push_back(took.count());
    loop_us.push_back(bound.count());
    shares.push_back(bound.count() / took.count());
  }
  state.counters["min_us"] = *std::min_element(kernel_us.begin(), kernel_us.end());
  state.counters["median_us"] = Quantile(kernel_us, 0.5);
  state.counters["p99_us"] = Quantile(kernel_us, 0.99);
  state.counters["bound_us"] = Quantile(loop_us, 0.5);
  state.counters["share"] = Quantile(shares, 0.5);
  state.counters["bytes"] = traffic.Bytes();
}

}  // namespace strata::kernels
