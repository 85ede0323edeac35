#ifndef STRATA_CLI_BENCH_TRAIN_BENCH_H_
#define STRATA_CLI_BENCH_TRAIN_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/figures.h"
#include "cli/bench/train_case.h"

namespace strata::cli {

struct TrainBenchOptions {
  std::string binary;    // this program: "BINARY local --job FILE ..." trains
  std::string job_text;  // of a job file
  uint32_t batch = 64;   // per rank, as in the job
  TrainCaseOptions cases;
  std::vector<std::string> cluster;  // as in TrainRun
  GpuRoom gpus;                      // concurrent jobs take them in turn
  uint64_t steps = 0;                // per rank; 0: as many as take the base `seconds`
  double seconds = 2;
  uint32_t rounds = 3;
  // Ranks that compute at once. A case with more ranks makes proportionally fewer steps, unless
  // `steps` is set.
  uint32_t ranks_at_once = 1;
  // Checks that two runs of a sync job end with the same bits, and one of 1 rank with those of a
  // job without an exchange.
  bool repeats_bits = true;
  bool equals_none = true;
  int stop_fd = -1;  // ends everything when readable
};

struct Spread {
  double median = 0, least = 0, most = 0;
};

struct TrainFigures {
  TrainCase what;
  // Why there are no figures: the machine, or its software, cannot run it, or a job failed.
  std::string why_not;
  uint64_t steps = 0;           // of each rank
  std::vector<double> rates;    // images per second in each window of steps, of all rounds
  std::vector<double> medians;  // of these, by round
  Spread rate;                  // of the rounds' medians
  Figures step;                 // a window's time divided by its steps
  double bound_ms = 0;          // the median step of as many ranks without an exchange
  std::vector<double> shares;   // by round: median rate / that of these ranks in the same round
  double share = 0;             // their median
  // By round: median rate / (ranks x that of the base, one rank without an exchange).
  std::vector<double> efficiencies;
  Spread efficiency;

  // Returns the additional time per step due to the exchange, as a share of a step without one.
  double overhead() const { return share > 0 ? 1 / share - 1 : 0; }
};

struct TrainBenchResult {
  std::vector<TrainFigures> figures;
  // The first error: a loss that is not finite, too many or too few samples, a sync job with other
  // weights than expected, a job that failed for another reason than a missing NCCL. Empty: none.
  std::string wrong;
};

// Blocks until all cases are measured, in turn, alternating the direction between rounds; no
// process and no file is left. `progress` gets the results, line by line. Errors: InvalidArgument
// (options), Unavailable (a job without an exchange failed; its message), Cancelled.
absl::StatusOr<TrainBenchResult> RunTrainBench(
    const TrainBenchOptions& options, const std::function<void(const std::string&)>& progress);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_TRAIN_BENCH_H_
