#ifndef STRATA_BENCH_TRAIN_TRAIN_BENCH_H_
#define STRATA_BENCH_TRAIN_TRAIN_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/exchange/figures.h"

namespace strata::bench {

// What ranks of a job do with each other.
struct TrainCase {
  std::string exchange;  // "none", "sync", "lazy", "async" (servers), "ring"
  uint32_t ranks = 1;

  // One node holds all ranks, in a ring each its own; "none" is as many jobs of one rank, side by
  // side.
  uint32_t nodes() const { return exchange == "ring" || exchange == "none" ? ranks : 1; }
};

struct TrainBenchOptions {
  std::string binary;  // this program: "BINARY local --job FILE ..." trains
  std::string job;     // a file; empty: `model` on made-up data
  std::string model = "lenet5";
  uint32_t batch = 64;                // per rank, also that of the file
  std::vector<std::string> settings;  // of the job: "PATH=VALUE"
  std::vector<std::string> exchanges = {"sync", "lazy", "async", "ring"};
  uint32_t ranks_max = 2;  // 1, 2, 4, ... and this
  uint32_t servers = 1;
  uint64_t steps = 400;  // of each rank
  uint32_t rounds = 3;
};

struct TrainFigures {
  TrainCase what;
  std::vector<double> rates;  // images per second of each window of steps, of all rounds
  double median_rate = 0;
  Figures step;                // a window's time over its steps
  double bound_ms = 0;         // the median of as many ranks that exchange nothing
  std::vector<double> shares;  // by round: median rate / that of those ranks in the same round
  double share = 0;            // their median
  double scaling = 0;          // median rate / (ranks x that of one rank that exchanges nothing)

  // What the exchange adds to a step with none, as a share of it.
  double overhead() const { return share > 0 ? 1 / share - 1 : 0; }
};

struct TrainBenchResult {
  std::vector<TrainFigures> figures;
  // One sync rank ends with the bits of one that exchanges nothing, and sync jobs of more end with
  // the same in every round.
  bool verified = false;
};

// Blocks until all is measured; no process is left. `progress` is told in a line what has been
// found. Errors: InvalidArgument (options), Unavailable (a job that failed, with what it said).
absl::StatusOr<TrainBenchResult> RunTrainBench(
    const TrainBenchOptions& options, const std::function<void(const std::string&)>& progress);

}  // namespace strata::bench

#endif  // STRATA_BENCH_TRAIN_TRAIN_BENCH_H_
