#ifndef STRATA_COMPARE_SWEEP_HALVING_H_
#define STRATA_COMPARE_SWEEP_HALVING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace strata::compare {

// One round of a sweep: so many points, each with its steps / divisor.
struct Rung {
  size_t points = 0;
  uint64_t divisor = 1;
};

// Successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and
// hyperparameter optimization", 2016): as many rungs as leave at least one point for the last,
// which has the whole budget; of each rung 1 / eta go on, rounded down, with eta times the steps.
// `eta` 0: one rung of all. REQUIRES: points >= 1, eta 0 or >= 2.
std::vector<Rung> PlanRungs(size_t points, uint32_t eta);

// Returns those of the points, in their order, that go on: the `count` with the greatest accuracy,
// or, of another metric, the least, the earlier of equals. A point without one comes after those
// that have it.
std::vector<size_t> BestPoints(const std::vector<std::optional<double>>& accuracies, size_t count,
                               bool less_is_better = false);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_HALVING_H_
