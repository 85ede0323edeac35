// Bytes per second of the CPU's kernels beside those of STREAM's triad over the same footprint, see
// against_triad.h. Values are checked first. codec_benchmark.cc adds the codecs.
//
//   bazel run -c opt //kernels:kernels_benchmark
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/against_triad.h"
#include "kernels/kernels.h"
#include "kernels/reference.h"

namespace strata::kernels {
namespace {

void BM_Sum(benchmark::State& state) {
  const size_t k = state.range(0), n = state.range(1);
  const auto inputs = Vectors(k, n);
  std::vector<const float*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  const Vector out(n), expected(n);
  Cpu().sum(pointers, out.data(), n);
  reference::Sum(pointers, expected.data(), n);
  if (!out.SameBits(expected)) return state.SkipWithError("the values are wrong");
  AgainstTriad(state, 4.0 * (k + 1) * n, [&] { Cpu().sum(pointers, out.data(), n); });
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
  AgainstTriad(state, 4.0 * streams * n, [&] { update(Cpu().optimize, got); });
}

void BM_AllFinite(benchmark::State& state) {
  const size_t n = state.range(0);
  const auto x = Vectors(1, n);
  if (!Cpu().all_finite(x[0].data(), n)) return state.SkipWithError("the value is wrong");
  AgainstTriad(state, 4.0 * n, [&] { benchmark::DoNotOptimize(Cpu().all_finite(x[0].data(), n)); });
}

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
