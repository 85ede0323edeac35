#ifndef STRATA_CLI_BENCH_MEMORY_PASS_H_
#define STRATA_CLI_BENCH_MEMORY_PASS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "common/fork_join.h"
#include "worker/contract/node_memory.h"

namespace strata::cli {

// Measures the memory's own speed: a plain loop, as in STREAM, reads several vectors once and
// writes one with non-temporal stores, on several cores, in memory of the kind that ranks share.
// Uses none of the product's kernels.
//
// Threads: one.
class MemoryPass {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<MemoryPass>> Create(uint64_t elements, uint32_t inputs,
                                                            uint32_t threads);

  // Runs one pass over vectors that have just been written, like gradients; returns its time.
  double Ms();

 private:
  MemoryPass(std::unique_ptr<worker::NodeMemory> memory, uint32_t threads)
      : memory_(std::move(memory)), helpers_(threads - 1) {}

  const std::unique_ptr<worker::NodeMemory> memory_;
  ForkJoin helpers_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_MEMORY_PASS_H_
