// The node level: gradients of 2 and 4 ranks summed and the result visible to all of them, in the
// node's shared memory, beside the time of a plain pass over the same bytes (each gradient read
// once, the weights written once), both timed alternately in one run. `plain_ratio` (plain / ours)
// is what counts. Values are checked first. One thread, no exchange between sum and weights.
//
//   bazel run -c opt //worker/aggregator/core:node_arenas_benchmark
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "worker/aggregator/core/node_arenas.h"

namespace strata::worker {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr uint32_t kChunkElements = 262144;  // 1 MiB

float GradientOf(uint32_t rank, uint64_t i) { return static_cast<float>((i * 7 + rank) % 1000); }

// One pass of the aggregator over each chunk; the sum serves as the answer.
void Pass(const ChunkMap& map, uint64_t clock, AggregatorCore* core, NodeArenas* arenas) {
  const std::vector<uint64_t> ready(64, clock + 1);
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    const ChunkId chunk(c);
    core->OnReady(chunk, ready).status().IgnoreError();
    arenas->TakeWeights(chunk, 0, arenas->TakeSum(chunk, clock).bytes).IgnoreError();
    arenas->Landed(chunk, clock).IgnoreError();
  }
}

bool Correct(const NodeMemory& memory, uint32_t ranks) {
  for (uint64_t i = 0; i < memory.offsets().elements; ++i) {
    float sum = 0;  // whole numbers: exact in any order
    for (uint32_t r = 0; r < ranks; ++r) sum += GradientOf(r, i);
    if (memory.weights()[i] != sum) return false;
  }
  return true;
}

// A plain pass over two gradients and the weights.
__attribute__((optimize("O3"))) void PlainPass(const NodeMemory& memory, uint32_t ranks) {
  const float* __restrict a = memory.gradients(0);
  float* __restrict out = memory.weights();
  const uint64_t n = memory.offsets().elements;
  const float* __restrict b = memory.gradients(ranks - 1);
  for (uint64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void BM_SumAndShow(benchmark::State& state) {
  const auto ranks = static_cast<uint32_t>(state.range(0));
  const auto elements = static_cast<uint64_t>(state.range(1));
  auto memory = NodeMemory::Create(elements, ranks);
  if (!memory.ok()) return state.SkipWithError("no memory");
  for (uint32_t r = 0; r < ranks; ++r) {
    for (uint64_t i = 0; i < elements; ++i) (*memory)->gradients(r)[i] = GradientOf(r, i);
  }
  const ChunkMap map(elements, kChunkElements);
  AggregatorCore core(RankId(0), ranks, map.chunks());
  NodeArenas arenas(memory->get(), &core, map, kernels::Cpu());
  uint64_t clock = 0;
  Pass(map, clock++, &core, &arenas);
  if (!Correct(**memory, ranks)) return state.SkipWithError("the values are wrong");
  double pass_s = 0, plain_s = 0;
  for (auto _ : state) {
    const auto start = SteadyClock::now();
    Pass(map, clock++, &core, &arenas);
    const auto middle = SteadyClock::now();
    PlainPass(**memory, ranks);
    benchmark::ClobberMemory();
    const std::chrono::duration<double> took = middle - start, plain = SteadyClock::now() - middle;
    state.SetIterationTime(took.count());
    pass_s += took.count();
    plain_s += plain.count() * (ranks + 1) / 3;  // the plain pass reads two gradients only
  }
  state.counters["ms"] = 1e3 * pass_s / static_cast<double>(state.iterations());
  state.counters["plain_ms"] = 1e3 * plain_s / static_cast<double>(state.iterations());
  state.counters["plain_ratio"] = plain_s / pass_s;
}

// Tiny (for the test), and 100 MiB.
BENCHMARK(BM_SumAndShow)
    ->ArgNames({"ranks", "elements"})
    ->ArgsProduct({{2, 4}, {5003, 26214400}})
    ->UseManualTime();

}  // namespace
}  // namespace strata::worker

BENCHMARK_MAIN();
