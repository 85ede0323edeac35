#ifndef STRATA_COMPARE_SWEEP_SWEEP_PICTURES_H_
#define STRATA_COMPARE_SWEEP_SWEEP_PICTURES_H_

#include <string>
#include <vector>

#include "compare/campaign/campaign.pb.h"
#include "compare/statistics/metric.h"
#include "compare/sweep/sweep_lines.h"

namespace strata::compare {

// Accuracy against the field's values as an SVG file, as the page shows it: hollow is a point that
// had not its whole budget, and lines join points of one rung.
std::string SweepSvg(const proto::Variation& field, const std::vector<SweepLine>& lines,
                     const Metric& metric = {});

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_SWEEP_PICTURES_H_
