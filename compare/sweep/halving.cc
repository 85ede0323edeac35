#include "compare/sweep/halving.h"

#include <algorithm>
#include <numeric>

#include "common/require.h"

namespace strata::compare {

std::vector<Rung> PlanRungs(size_t points, uint32_t eta) {
  STRATA_REQUIRE(points >= 1 && eta != 1);
  std::vector<Rung> rungs = {{points, 1}};
  if (eta == 0) return rungs;
  while (rungs.back().points >= eta) {
    for (Rung& rung : rungs) rung.divisor *= eta;
    rungs.push_back({rungs.back().points / eta, 1});
  }
  return rungs;
}

std::vector<size_t> BestPoints(const std::vector<std::optional<double>>& accuracies, size_t count,
                               bool less_is_better) {
  std::vector<size_t> places(accuracies.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto goodness = [&](size_t place) {
    std::optional<double> value = accuracies[place];
    if (value && less_is_better) value = -*value;
    return value;
  };
  // None compares below every accuracy.
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return goodness(a) > goodness(b); });
  places.resize(std::min(count, places.size()));
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace strata::compare
