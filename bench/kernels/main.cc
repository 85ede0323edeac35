// The program behind `strata bench kernels`, which says what its options are and checks them.
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/kernels/benchmarks.h"
#include "bench/kernels/reporter.h"

namespace strata::bench {
namespace {

struct Options {
  std::string filter;
  double seconds = 0.5;
  bool tiny = false;
  bool json = false;
};

int Complain(const std::string& what) {
  std::fprintf(stderr, "strata: error: %s\n", what.c_str());
  return 1;
}

int Run(const Options& options) {
  // Odd and tiny; a chunk of 1 MiB; and what no cache of one core holds.
  const std::vector<kernels::BenchmarkSize> sizes =
      options.tiny ? std::vector<kernels::BenchmarkSize>{{"tiny", 1003}}
                   : std::vector<kernels::BenchmarkSize>{{"1MiB", 262144}, {"100MiB", 26214400}};
  kernels::RegisterKernelBenchmarks(sizes);
  kernels::RegisterCodecBenchmarks(sizes);
  std::vector<std::string> args = {"strata-kernels",
                                   absl::StrCat("--benchmark_min_time=", options.seconds)};
  if (!options.filter.empty()) args.push_back("--benchmark_filter=" + options.filter);
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  KernelReporter reporter(options.json);
  const size_t ran = benchmark::RunSpecifiedBenchmarks(&reporter);
  if (!reporter.first_error().empty()) return Complain(reporter.first_error());
  if (ran == 0) return Complain(absl::StrCat("--filter ", options.filter, ": no such kernel"));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app;
  Options options;
  app.add_option("--filter", options.filter);
  app.add_option("--seconds", options.seconds);
  app.add_flag("--tiny", options.tiny);
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  return Run(options);
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
