#ifndef STRATA_COMPARE_REPORT_CONTENT_H_
#define STRATA_COMPARE_REPORT_CONTENT_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/analysis.h"
#include "compare/curve.h"
#include "compare/report/report.h"
#include "compare/verdict.h"

namespace strata::compare {

inline constexpr std::array<Axis, 3> kAxes = {Axis::kSamples, Axis::kSeconds, Axis::kUpdates};

struct FailedRun {
  uint64_t seed = 0;
  Curve curve;
};

// One kind of curve of a mode, by one axis.
struct CurveSet {
  std::vector<BandPoint> mean;    // of the runs that have finished; empty if none has
  std::vector<FailedRun> failed;  // each run that has not, by seed
};

// A mode's curves, by axis as in kAxes.
struct ModeCurves {
  std::array<CurveSet, 3> accuracy;
  std::array<CurveSet, 3> loss;
};

// Everything that a report says, in any form.
struct Content {
  Analysis analysis;
  Verdict verdict;
  std::vector<ModeCurves> curves;              // by mode
  std::vector<std::vector<std::string>> rows;  // of the table, the columns' names first
  std::vector<std::string> rules;              // the method, one sentence each
};

// Errors: as of Analyze.
absl::StatusOr<Content> MakeContent(const ReportInput& input);

// Returns the mean staleness of a mode's pushes, counting the last bin as its own number; nothing
// without pushes.
std::optional<double> MeanStaleness(const std::vector<uint64_t>& bins);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_CONTENT_H_
