#include "compare/curve.h"

#include <algorithm>
#include <cmath>
#include <optional>

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

namespace {

void Append(double x, double y, Curve* curve) {
  if (std::isfinite(x) && std::isfinite(y)) curve->push_back({x, y});
}

Curve UpdatesBySamples(const proto::RunRecord& run) {
  Curve updates = {{0, 0}};
  for (const proto::Measurement& measurement : run.measurements()) {
    updates.push_back({double(measurement.samples()), double(measurement.updates())});
  }
  return updates;
}

}  // namespace

std::string RunFailure(const proto::RunRecord& run) {
  if (!run.failure().empty()) return run.failure();
  if (run.measurements().empty()) return "no accuracy was measured";
  if (run.steps() == 0) return "no step was made";
  const bool is_finite =
      std::isfinite(run.trained_s()) && std::isfinite(run.waiting_share()) &&
      std::all_of(run.measurements().begin(), run.measurements().end(), [](const auto& m) {
        return std::isfinite(m.trained_s()) && std::isfinite(m.accuracy());
      });
  return is_finite ? "" : "a time, share or accuracy of its record is not finite";
}

Curve AccuracyCurve(const proto::RunRecord& run, Axis axis) {
  Curve curve;
  for (const proto::Measurement& measurement : run.measurements()) {
    const double x = axis == Axis::kSamples   ? measurement.samples()
                     : axis == Axis::kSeconds ? measurement.trained_s()
                                              : measurement.updates();
    Append(x, measurement.accuracy(), &curve);
  }
  return curve;
}

Curve LossCurve(const proto::RunRecord& run, Axis axis) {
  const Curve updates = UpdatesBySamples(run);
  Curve curve;
  for (const proto::Window& window : run.windows()) {
    double x = axis == Axis::kSamples ? window.samples() : window.trained_s();
    if (axis == Axis::kUpdates) {
      // Past the last measurement: those that it knew.
      x = ValueAt(updates, window.samples()).value_or(updates.back().y);
    }
    Append(x, window.loss(), &curve);
  }
  return curve;
}

}  // namespace strata::compare
