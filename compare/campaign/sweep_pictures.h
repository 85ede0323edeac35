#ifndef STRATA_COMPARE_CAMPAIGN_SWEEP_PICTURES_H_
#define STRATA_COMPARE_CAMPAIGN_SWEEP_PICTURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compare/analysis.h"
#include "compare/campaign/campaign.pb.h"
#include "compare/campaign/sweep_plan.h"
#include "compare/campaign/sweep_result.h"

namespace strata::compare {

// How a field's values lie on a chart's axis.
struct ValueAxis {
  enum class Kind {
    kLinear,
    kLogarithmic,  // numbers above 0 that span a decade or more
    kNames,        // not all are numbers: side by side, in their order
  };
  Kind kind = Kind::kLinear;
  std::vector<double> positions;  // of the values: themselves, their log10, or 0, 1, 2 ...
  double low = 0, high = 0;       // of the axis: a little room on both sides
};

ValueAxis MakeAxis(const proto::Variation& variation);

struct LinePoint {
  double x = 0;  // position on the field's axis
  double accuracy = 0;
  size_t rung = 0;
  uint64_t steps = 0;
  bool is_whole = false;  // it had its whole budget
};

// Points that differ in one field alone.
struct SweepLine {
  std::string name;               // settings of the other fields; empty: there are none
  std::vector<LinePoint> points;  // x ascends; those without an accuracy are left out
};

// The lines of a field's chart, one per choice of the other fields' values, in the grid's order.
std::vector<SweepLine> MakeSweepLines(const SweepPlan& plan, const SweepResult& result,
                                      size_t field);

// Accuracy against the field's values as an SVG file, as the page shows it: hollow is a point that
// had not its whole budget, and lines join points of one rung.
std::string SweepSvg(const proto::Variation& field, const std::vector<SweepLine>& lines,
                     const Metric& metric = {});

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SWEEP_PICTURES_H_
