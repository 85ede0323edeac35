// The program behind `strata bench kernels`, which says what its options are and checks them.
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "bench/kernel_benchmarks.h"

namespace strata::bench {
namespace {

// Google Benchmark's results as Strata's tables show them: a line as each kernel is done, or JSON
// at the end.
class KernelReporter final : public benchmark::BenchmarkReporter {
 public:
  explicit KernelReporter(bool json) : json_(json) { SetErrorStream(&unsaid_); }

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  size_t kernels() const { return rows_.size(); }
  const std::string& first_error() const { return first_error_; }

 private:
  const bool json_;
  std::ostringstream unsaid_;  // what the library would say itself
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  std::string first_error_;  // "KERNEL: what is wrong"; empty: all values were right
};

bool KernelReporter::ReportContext(const Context&) {
  if (json_) return true;
  absl::PrintF(
      "kernels of the CPU, one thread; values verified; bound: a plain loop that reads and\n"
      "writes as many bytes in the same way, in turn with the kernel\n");
  absl::PrintF("%-32s %10s %8s %10s %10s %10s %10s %6s\n", "", "MiB moved", "GB/s", "min us",
               "median us", "p99 us", "bound us", "share");
  return true;
}

void KernelReporter::ReportRuns(const std::vector<Run>& runs) {
  for (const Run& run : runs) {
    const std::string name(absl::StripSuffix(run.benchmark_name(), "/manual_time"));
    if (run.error_occurred) {
      if (first_error_.empty()) first_error_ = absl::StrCat(name, ": ", run.error_message);
      continue;
    }
    auto counter = [&](const char* of) { return run.counters.at(of).value; };
    const double bytes = counter("bytes"), median_us = counter("median_us");
    rows_.push_back({{"kernel", name},
                     {"bytes", bytes},
                     {"gb_per_s", bytes / median_us / 1e3},
                     {"min_us", counter("min_us")},
                     {"median_us", median_us},
                     {"p99_us", counter("p99_us")},
                     {"bound_us", counter("bound_us")},
                     {"share", counter("share")},
                     {"verified", true}});
    if (json_) continue;
    absl::PrintF("%-32s %10.3f %8.2f %10.2f %10.2f %10.2f %10.2f %6.3f\n", name, bytes / (1 << 20),
                 bytes / median_us / 1e3, counter("min_us"), median_us, counter("p99_us"),
                 counter("bound_us"), counter("share"));
    std::fflush(stdout);
  }
}

void KernelReporter::Finalize() {
  if (!json_) return;
  const nlohmann::ordered_json all = {{"kernels", rows_}, {"verified", first_error_.empty()}};
  std::printf("%s\n", all.dump().c_str());
}

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
