#include "bench/kernels/reporter.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace strata::bench {

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

}  // namespace strata::bench
