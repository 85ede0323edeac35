#ifndef STRATA_CLI_BENCH_NODE_BENCH_H_
#define STRATA_CLI_BENCH_NODE_BENCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/aggregator/aggregator.h"

namespace strata::cli {

// The node level alone: an aggregator and its ranks, each a process of its own as in a job, sum the
// ranks' gradients in shared memory, without a network or an optimizer.
struct NodeBenchOptions {
  // This program: "BINARY bench node --launch FILE [--helpers N]" runs the aggregator, and "BINARY
  // bench rank --launch FILE ... --sums" a rank.
  std::string binary;
  uint32_t ranks = 2;
  uint64_t bytes = uint64_t{100} << 20;  // of each rank's gradient
  uint32_t chunk_elements = 0;           // 0: a job's default
  uint64_t steps = 30;
  uint64_t warmup = 3;
  std::optional<uint32_t> helpers;  // the aggregator's helper threads; absent: as in a job
};

struct NodeBenchResult {
  std::vector<double> steps_ms;  // from publication until the slowest rank sees the last sum
  std::vector<double> bound_ms;  // the memory's own time for it, measured after each step
  bool verified = false;
  uint32_t threads = 0;  // of the aggregator while its ranks sleep
  uint32_t bound_threads = 0;
  uint32_t chunks = 0;
  uint32_t chunk_elements = 0;
};

// Blocks until it is done; no process is left. Errors: InvalidArgument (options), Unavailable (a
// process has exited early), naming it.
absl::StatusOr<NodeBenchResult> RunNodeBench(const NodeBenchOptions& options);

// The aggregator's options for such a run.
worker::AggregatorOptions SumsOnly(std::optional<uint32_t> helpers);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_NODE_BENCH_H_
