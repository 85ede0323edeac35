// How long /metrics takes for 1,000 daemons and the jobs given. One scrape each 15 s is usual: the
// goal is 200 ms.

#include <algorithm>
#include <string>

#include "benchmark/benchmark.h"
#include "cli/web/exposition.h"
#include "cli/web/metric_text.h"
#include "cli/web/sample_scene.h"

namespace strata::cli {
namespace {

void BM_Exposition(benchmark::State& state) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const ClusterScene scene = testing::LargeScene(now, 1000, static_cast<int>(state.range(0)));
  std::string text;
  for (auto _ : state) {
    text = Exposition(scene, now);
    benchmark::DoNotOptimize(text.data());
  }
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (text.find("\nstrata_series_left_out 0\n") == std::string::npos ||
      static_cast<size_t>(lines) > metrics::kSeriesMax) {
    state.SkipWithError("the text lacks series");
  }
  state.counters["lines"] = static_cast<double>(lines);
  state.counters["bytes"] = static_cast<double>(text.size());
}
BENCHMARK(BM_Exposition)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace strata::cli

BENCHMARK_MAIN();
