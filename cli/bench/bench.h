#ifndef STRATA_CLI_BENCH_BENCH_H_
#define STRATA_CLI_BENCH_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/figures.h"
#include "cli/options/invocation.h"

namespace strata::cli {

// One measurement of the real system: a cluster of its own, whose ranks exchange gradients of known
// values and compute nothing.
struct ExchangeBenchOptions {
  std::string exchange = "ps";  // or the name of a Job::Exchange
  uint32_t nodes = 2;
  uint32_t ranks_per_node = 1;
  uint32_t servers = 1;
  uint32_t shards = 1;  // per server
  uint64_t bytes = 0;   // of the gradient
  uint32_t window = 0;  // as in job.proto, like the next
  uint32_t chunk_elements = 0;
  uint64_t steps = 20;
  uint64_t warmup = 3;
  std::vector<std::string> settings;  // of the job, in addition to those above: "PATH=VALUE"
  // A hosts file with one host per node and then per server, in order. Empty: all on this one.
  std::string hosts_file;
  double bandwidth_mbit = 0;  // of a link; 0: iperf3 measures it
  int measure_s = 2;          // for how long; 0: not measured
};

struct ExchangeBenchResult {
  std::vector<double> steps_ms;
  Figures figures;
  bool verified = false;
  double bound_ms = 0;     // 0: not known
  double bytes_per_s = 0;  // of a link; 0: unknown
  std::string bandwidth_source;
  std::string congestion;  // TCP's algorithm
  uint32_t chunks = 0;
  uint32_t chunk_elements = 0;
  uint32_t window = 0;
  std::string encoding;  // "push fp16, pull fp16"; empty: fp32

  double share() const { return figures.median_ms > 0 ? bound_ms / figures.median_ms : 0; }
};

// Blocks until it is done and the whole cluster is gone. Errors: InvalidArgument (options),
// FailedPrecondition (a daemon or the job failed; the cause was printed on stderr).
absl::StatusOr<ExchangeBenchResult> RunExchangeBench(const ExchangeBenchOptions& options);

// `bench aggregate`: the node level, and the hidden command for its aggregator.
void AddAggregateBench(CLI::App* bench, Invocation* invocation);

// `bench kernels`: runs the program strata-kernels, beside this one.
void AddKernelsBench(CLI::App* bench, Invocation* invocation);

// `bench train`: a job's trainer with each exchange and with none.
void AddTrainBench(CLI::App* bench, Invocation* invocation);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_BENCH_H_
