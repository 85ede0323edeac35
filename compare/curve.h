#ifndef STRATA_COMPARE_CURVE_H_
#define STRATA_COMPARE_CURVE_H_

#include <optional>
#include <string>
#include <vector>

#include "compare/run_record.pb.h"

namespace strata::compare {

struct Point {
  double x = 0;
  double y = 0;
};

// The measurements of a run; x ascends.
using Curve = std::vector<Point>;

// Replaces each y by the median of itself and its neighbours; the first and the last point stay.
Curve Smoothed(const Curve& curve);

// Returns the x at which the curve first reaches y: linear between the points around it; the first
// point's x if that has reached it already. None if no point has.
std::optional<double> FirstCrossing(const Curve& curve, double y);

// Interpolates linearly between the points around x. None outside of the curve.
std::optional<double> ValueAt(const Curve& curve, double x);

// Several curves at one x.
struct BandPoint {
  double x = 0;
  double mean = 0;
  double low = 0;   // the least of them
  double high = 0;  // the greatest
};

// Returns the mean curve over the range that all curves share, at both ends and at no more than
// `points_max` (>= 2) of the first curve's x. Empty if they share no range. REQUIRES: curves not
// empty.
std::vector<BandPoint> MeanCurve(const std::vector<Curve>& curves, int points_max);

// The unit in which a run's progress is counted.
enum class Axis { kSamples, kSeconds, kUpdates };

// Returns why a run has no figures, one line: its failure, or what its record lacks (an accuracy, a
// finite number). Empty if it has finished.
std::string RunFailure(const proto::RunRecord& run);

// Returns the accuracy on the test data (0 to 1), a point per measurement. All curves omit points
// that are not finite.
Curve AccuracyCurve(const proto::RunRecord& run, Axis axis);

// Returns the training loss, a point per window. Windows do not report updates: these are assumed
// to be spread evenly between the run's measurements.
Curve LossCurve(const proto::RunRecord& run, Axis axis);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CURVE_H_
