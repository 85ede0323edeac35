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
// writes one past the caches, on several cores, in memory of the kind that ranks share. It uses no
// kernel of the product.
//
// Threads: one.
class MemoryPass {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<MemoryPass>> Create(uint64_t elements, uint32_t inputs,
                                                            uint32_t threads);

  // Does it once, with vectors that have been written just before, as gradients are; how long it
  // took.
  double Ms();

 private:
  MemoryPass(std::unique_ptr<worker::NodeMemory> memory, uint32_t threads)
      : memory_(std::move(memory)), helpers_(threads - 1) {}

  const std::unique_ptr<worker::NodeMemory> memory_;
  ForkJoin helpers_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_MEMORY_PASS_H_
