#include "compare/report/svg/scale.h"

#include <cmath>

namespace strata::compare {
namespace {

double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1, 2, 5}) {
    if (step <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Scale RoundScale(double least, double greatest, int count, double from, double to) {
  if (!(greatest > least)) greatest = least + (least == 0 ? 1 : std::abs(least));
  const double step = RoundStep((greatest - least) / count);
  Scale scale;
  const double first = std::floor(least / step + 1e-9), last = std::ceil(greatest / step - 1e-9);
  scale.low = first * step;
  scale.high = last * step;
  scale.from = from;
  scale.to = to;
  for (int i = 0; i <= std::lround(last - first); ++i) scale.ticks.push_back((first + i) * step);
  return scale;
}

}  // namespace strata::compare
