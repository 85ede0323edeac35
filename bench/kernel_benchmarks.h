#ifndef STRATA_BENCH_KERNEL_BENCHMARKS_H_
#define STRATA_BENCH_KERNEL_BENCHMARKS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace strata::kernels {

// How long a kernel's vectors are.
struct BenchmarkSize {
  std::string name;
  size_t elements;
};

// Registers the CPU's kernels with Google Benchmark, each as "KERNEL/SIZE", with the counters of
// AgainstStream. Values are checked before anything is timed; wrong ones are the case's error.
void RegisterKernelBenchmarks(const std::vector<BenchmarkSize>& sizes);
void RegisterCodecBenchmarks(const std::vector<BenchmarkSize>& sizes);

}  // namespace strata::kernels

#endif  // STRATA_BENCH_KERNEL_BENCHMARKS_H_
