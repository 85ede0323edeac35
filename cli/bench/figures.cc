#include "cli/bench/figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace strata::cli {
namespace {

// The nearest rank: the smallest time that `share` of the steps do not exceed.
double Quantile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::max<size_t>(1, static_cast<size_t>(rank)) - 1];
}

}  // namespace

Figures MakeFigures(std::vector<double> steps_ms) {
  if (steps_ms.empty()) return {};
  std::sort(steps_ms.begin(), steps_ms.end());
  return {steps_ms.front(), Quantile(steps_ms, 0.5), Quantile(steps_ms, 0.99)};
}

double BoundShare(const std::vector<double>& bound_ms, const std::vector<double>& steps_ms) {
  std::vector<double> shares;
  for (size_t i = 0; i < std::min(bound_ms.size(), steps_ms.size()); ++i) {
    shares.push_back(bound_ms[i] / steps_ms[i]);
  }
  return MakeFigures(std::move(shares)).median_ms;
}

double BoundMs(const BoundInput& input) {
  if (input.bytes_per_s <= 0) return 0;
  const auto n = static_cast<double>(input.nodes), k = static_cast<double>(input.servers);
  double passes = 0;  // of the node's bytes over the busiest link
  if (input.servers == 0) {
    passes = input.shares_one_host ? 2 * (n - 1) : 2 * (n - 1) / n;
  } else {
    passes = input.shares_one_host ? 2 * n : std::max(1.0, n / k);
  }
  return 1e3 * passes * static_cast<double>(input.bytes) / input.bytes_per_s;
}

}  // namespace strata::cli
