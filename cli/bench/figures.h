#ifndef STRATA_CLI_BENCH_FIGURES_H_
#define STRATA_CLI_BENCH_FIGURES_H_

#include <cstdint>
#include <vector>

namespace strata::cli {

// Times of steps, in ms.
struct Figures {
  double min_ms = 0, median_ms = 0, p99_ms = 0;
};

// All 0 where there are no steps.
Figures MakeFigures(std::vector<double> steps_ms);

// Returns the share of a bound that was measured with each step: the median over the steps of bound
// / step. 0 without a bound.
double BoundShare(const std::vector<double>& bound_ms, const std::vector<double>& steps_ms);

// A step's least time in ms, by what the links carry alone.
struct BoundInput {
  uint64_t bytes = 0;            // that every node brings
  uint32_t nodes = 1;            // n
  uint32_t servers = 1;          // k; 0: a ring
  double bytes_per_s = 0;        // of one link, each way
  bool shares_one_host = false;  // all of them use one loopback, both ways together
};
// Hosts of their own: servers max(M/B, nM/(kB)), ring 2(n-1)/n M/B. One host: all bytes that are
// sent, 2nM or 2(n-1)M, over B. 0 where B is not known.
double BoundMs(const BoundInput& input);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_FIGURES_H_
