#include "compare/statistics/curve.h"

#include <algorithm>
#include <cmath>

#include "common/require.h"

namespace strata::compare {
namespace {

double Median(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// y at x between two points; the later one's where they have the same x.
double Between(const Point& before, const Point& after, double x) {
  if (after.x <= before.x) return after.y;
  return before.y + (after.y - before.y) * (x - before.x) / (after.x - before.x);
}

}  // namespace

Curve Smoothed(const Curve& curve) {
  Curve smooth = curve;
  for (size_t i = 1; i + 1 < curve.size(); ++i) {
    smooth[i].y = Median(curve[i - 1].y, curve[i].y, curve[i + 1].y);
  }
  return smooth;
}

std::optional<double> FirstCrossing(const Curve& curve, double y) {
  for (size_t i = 0; i < curve.size(); ++i) {
    if (curve[i].y < y) continue;
    if (i == 0) return curve[i].x;
    const Point& before = curve[i - 1];
    return before.x + (curve[i].x - before.x) * (y - before.y) / (curve[i].y - before.y);
  }
  return std::nullopt;
}

std::optional<double> ValueAt(const Curve& curve, double x) {
  if (curve.empty() || x < curve.front().x || x > curve.back().x) return std::nullopt;
  size_t i = 0;
  while (i + 1 < curve.size() && curve[i].x < x) ++i;
  return i == 0 ? curve[0].y : Between(curve[i - 1], curve[i], x);
}

std::vector<BandPoint> MeanCurve(const std::vector<Curve>& curves, int points_max) {
  STRATA_REQUIRE(!curves.empty());
  double first = -INFINITY, last = INFINITY;
  for (const Curve& curve : curves) {
    if (curve.empty()) return {};
    first = std::max(first, curve.front().x);
    last = std::min(last, curve.back().x);
  }
  if (first > last) return {};
  std::vector<double> grid = {first};
  const Curve& steps = curves.front();
  const size_t stride = (steps.size() + points_max - 1) / points_max;
  for (size_t i = 0; i < steps.size(); i += stride) {
    if (steps[i].x > grid.back() && steps[i].x < last) grid.push_back(steps[i].x);
  }
  if (last > first) grid.push_back(last);

  std::vector<BandPoint> band;
  for (const double x : grid) {
    BandPoint point{x, 0, INFINITY, -INFINITY};
    for (const Curve& curve : curves) {
      const double y = *ValueAt(curve, x);
      point.mean += y / curves.size();
      point.low = std::min(point.low, y);
      point.high = std::max(point.high, y);
    }
    band.push_back(point);
  }
  return band;
}

}  // namespace strata::compare
