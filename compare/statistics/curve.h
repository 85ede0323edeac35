#ifndef STRATA_COMPARE_STATISTICS_CURVE_H_
#define STRATA_COMPARE_STATISTICS_CURVE_H_

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

// Each y is the median of itself and its two neighbours'; the first and the last point stay.
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

// Returns the mean curve over the range that all curves have, at no more than `points_max` (>= 2)
// of the first one's x and at both ends. Empty where they have no range in common. REQUIRES: curves
// not empty.
std::vector<BandPoint> MeanCurve(const std::vector<Curve>& curves, int points_max);

// The unit in which a run's progress is counted.
enum class Axis { kSamples, kSeconds, kUpdates };

// Why a run has no figures, one line: its failure, or what its record lacks (an accuracy, a number
// that is finite). Empty where it has finished.
std::string RunFailure(const proto::RunRecord& run);

// Accuracy on the test data (0 to 1), a point per measurement. Points that are not finite are left
// out, as in the others.
Curve AccuracyCurve(const proto::RunRecord& run, Axis axis);

// Training loss, a point per window. Windows say nothing of updates: those are taken to be made
// evenly between the run's measurements.
Curve LossCurve(const proto::RunRecord& run, Axis axis);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_STATISTICS_CURVE_H_
