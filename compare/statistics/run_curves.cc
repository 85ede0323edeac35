#include "compare/statistics/run_curves.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace strata::compare {
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
