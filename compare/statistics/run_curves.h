#ifndef STRATA_COMPARE_STATISTICS_RUN_CURVES_H_
#define STRATA_COMPARE_STATISTICS_RUN_CURVES_H_

#include <string>

#include "compare/run_record.pb.h"
#include "compare/statistics/curve.h"

namespace strata::compare {

// What a run's progress is counted in.
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

#endif  // STRATA_COMPARE_STATISTICS_RUN_CURVES_H_
