// Sum, optimizers, delay compensation and the check for NaN and infinity; codec_benchmark.cc has
// the codecs.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kernel_benchmarks.h"
#include "bench/stream_bound.h"
#include "kernels/kernels.h"
#include "kernels/testing/reference.h"

namespace strata::kernels {
namespace {

using SumKernel = decltype(Kernels::sum);

void RunSum(benchmark::State& state, SumKernel sum, size_t k, size_t n) {
  const auto inputs = Vectors(k, n);
  std::vector<const float*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  const Vector out(n), expected(n);
  sum(pointers, out.data(), n);
  reference::Sum(pointers, expected.data(), n);
  if (!out.SameBits(expected)) return state.SkipWithError("the values are wrong");
  AgainstStream(state, {.n = n, .reads = k, .writes = 1}, [&] { sum(pointers, out.data(), n); });
}

void RunOptimize(benchmark::State& state, OptimizerKind kind, size_t n) {
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
  AgainstStream(
      state, {.n = n, .reads = 2, .updates = static_cast<size_t>(StateVectors(kind)), .writes = 1},
      [&] { update(Cpu().optimize, got); });
}

void RunCompensate(benchmark::State& state, bool adaptive, size_t n) {
  const DelayCompensation how = {.lambda = 2.0f, .adaptive = adaptive};
  // gradient, w, w_base, mean square, out
  const std::vector<Vector> got = Vectors(5, n), expected = Vectors(5, n);
  const auto compensate = [&](auto kernel, const std::vector<Vector>& v) {
    kernel(how, 0.25f, v[0].data(), v[1].data(), v[2].data(), v[3].data(), v[4].data(), n);
  };
  compensate(Cpu().compensate, got);
  compensate(reference::Compensate, expected);
  for (size_t i = 0; i < got.size(); ++i) {
    if (!got[i].SameBits(expected[i])) return state.SkipWithError("the values are wrong");
  }
  AgainstStream(state, {.n = n, .reads = 3, .updates = adaptive ? 1u : 0u, .writes = 1},
                [&] { compensate(Cpu().compensate, got); });
}

void RunAllFinite(benchmark::State& state, size_t n) {
  const auto x = Vectors(1, n);
  if (!Cpu().all_finite(x[0].data(), n)) return state.SkipWithError("the value is wrong");
  AgainstStream(state, {.n = n, .reads = 1},
                [&] { benchmark::DoNotOptimize(Cpu().all_finite(x[0].data(), n)); });
}

}  // namespace

void RegisterKernelBenchmarks(const std::vector<BenchmarkSize>& sizes) {
  auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), std::move(run))->UseManualTime();
  };
  for (const BenchmarkSize& size : sizes) {
    const size_t n = size.elements;
    for (size_t k : {2, 4, 8, 16}) {
      add(absl::StrCat("sum_of_", k, "/", size.name),
          [=](benchmark::State& state) { RunSum(state, Cpu().sum, k, n); });
    }
    for (size_t k : {2, 4}) {
      add(absl::StrCat("sum_far_of_", k, "/", size.name),
          [=](benchmark::State& state) { RunSum(state, Cpu().sum_far, k, n); });
    }
    add(absl::StrCat("all_finite/", size.name),
        [=](benchmark::State& state) { RunAllFinite(state, n); });
    add(absl::StrCat("compensate/", size.name),
        [=](benchmark::State& state) { RunCompensate(state, false, n); });
    add(absl::StrCat("compensate_adaptive/", size.name),
        [=](benchmark::State& state) { RunCompensate(state, true, n); });
    for (const auto& [name, kind] :
         {std::pair("sgd", OptimizerKind::kSgd), std::pair("momentum", OptimizerKind::kMomentumSgd),
          std::pair("nesterov", OptimizerKind::kNesterov), std::pair("adam", OptimizerKind::kAdam),
          std::pair("adamw", OptimizerKind::kAdamW),
          std::pair("rmsprop_warmup", OptimizerKind::kRmspropWarmup),
          std::pair("adagrad", OptimizerKind::kAdagrad), std::pair("ftrl", OptimizerKind::kFtrl)}) {
      add(absl::StrCat(name, "/", size.name),
          [=, kind = kind](benchmark::State& state) { RunOptimize(state, kind, n); });
    }
  }
}

}  // namespace strata::kernels
