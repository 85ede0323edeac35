#ifndef STRATA_CLI_BENCH_FIGURES_H_
#define STRATA_CLI_BENCH_FIGURES_H_

#include <cstdint>
#include <vector>

namespace strata::cli {

// Times of steps, in ms.
struct Figures {
  double min_ms = 0, median_ms = 0, p99_ms = 0;
};

// All 0 without steps.
Figures MakeFigures(std::vector<double> steps_ms);

// Returns the share of a bound that was measured with each step: the median over the steps of bound
// / step. 0 without a bound.
double BoundShare(const std::vector<double>& bound_ms, const std::vector<double>& steps_ms);

// Inputs of a step's least time in ms, as limited by the links alone.
struct BoundInput {
  uint64_t bytes = 0;            // per node
  uint32_t nodes = 1;            // n
  uint32_t servers = 1;          // k; 0: a ring
  double bytes_per_s = 0;        // of one link, in each direction
  bool shares_one_host = false;  // all of them share one loopback, for both directions
};
// Hosts of their own: servers max(M/B, nM/(kB)), ring 2(n-1)/n M/B. One host: all bytes sent, 2nM
// or 2(n-1)M, over B. 0 if B is unknown.
double BoundMs(const BoundInput& input);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_FIGURES_H_
