#ifndef STRATA_COMPARE_CAMPAIGN_SWEEP_REPORT_H_
#define STRATA_COMPARE_CAMPAIGN_SWEEP_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compare/analysis.h"
#include "compare/campaign/sweep_plan.h"
#include "compare/campaign/sweep_result.h"

namespace strata::compare {

struct SweepReport {
  std::string title;  // such as the job's name
  std::string cluster;
  uint32_t halving = 0;
  SweepPlan plan;
  SweepResult result;
  Metric metric;
  std::string under_way;  // how far the sweep is; empty: all runs are there
};

// Returns what a terminal shows: a row per point, the best first; the first row names the columns.
std::vector<std::vector<std::string>> SweepTable(const SweepReport& report);

// The best point, with halving what it saved, and what of that is due to checkpoints, a sentence
// each.
std::vector<std::string> SweepWords(const SweepReport& report);

// The document that docs/reports.md describes. The same runs have the same bytes.
std::string SweepJson(const SweepReport& report);

// Writes sweep.json, report/index.html and report/accuracy_by_FIELD.svg into the directory, which
// exists. What was there is replaced, each file as a whole. Errors as of WriteFileAtomically.
absl::Status WriteSweepReport(const SweepReport& report, const std::string& directory);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SWEEP_REPORT_H_
