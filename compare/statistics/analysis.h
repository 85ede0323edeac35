#ifndef STRATA_COMPARE_STATISTICS_ANALYSIS_H_
#define STRATA_COMPARE_STATISTICS_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"
#include "compare/statistics/estimate.h"
#include "compare/statistics/metric.h"

namespace strata::compare {

// Accuracies are shares from 0 to 1 here, and a point is 0.01, unless a metric takes their place.

// A mode whose mean final accuracy is further below the best mode's than this does not lower the
// target: what has not learnt would make a target that says nothing.
inline constexpr double kTargetRange = 0.10;
// How much worse than the worst mode's the target is. Of metrics other than accuracy both are
// shares of the value.
inline constexpr double kBelowWorst = 0.01;

struct AnalysisOptions {
  // The first is the baseline; each has a run.
  std::vector<std::string> modes;
  // Whose time is told; none: 0.01 below the lowest mean final accuracy of a mode (but see
  // kTargetRange), rounded down to 0.001.
  std::optional<double> target_accuracy;
  // Final accuracies that differ by less are called equal. Above 0, below 1; of other metrics a
  // share of the baseline's mean.
  double equivalence_margin = 0.005;
  Metric metric;
};

// Figures of one run.
struct RunFigures {
  uint64_t seed = 0;
  std::string failure;  // then the rest has no meaning
  double final_accuracy = 0;
  double trained_s = 0;
  double bytes_per_step = 0;
  double waiting_share = 0;
  // Read from the smoothed curve; absent where it has not got there.
  std::optional<double> accuracy_at_equal_samples;
  std::optional<double> accuracy_at_equal_updates;
  std::optional<double> seconds_to_target;
  std::optional<double> samples_to_target;
};

// A mode against the baseline, of the seeds with which both have finished, in pairs.
struct Comparison {
  int pairs = 0;
  std::optional<Estimate> accuracy;          // final, mode - baseline; none without pairs
  std::optional<Estimate> at_equal_updates;  // mode - baseline; none if a pair lacks it
  // Baseline's seconds to the target / mode's, geometric: above 1 the mode is sooner. None unless
  // both reach it in all runs.
  std::optional<Estimate> speedup;
  bool less_is_better = false;
};

struct ModeFigures {
  std::string mode;
  std::vector<RunFigures> runs;  // by seed
  int failed = 0;
  int reached = 0;  // runs that have finished and reached the target
  // Estimates over the runs that have finished; none where none has, or where one lacks it.
  std::optional<Estimate> final_accuracy;
  std::optional<Estimate> accuracy_at_equal_samples;
  std::optional<Estimate> accuracy_at_equal_updates;
  std::optional<Estimate> trained_s;
  std::optional<Estimate> bytes_per_step;  // of all nodes, both ways
  std::optional<Estimate> waiting_share;
  // Geometric; none unless all runs have reached the target.
  std::optional<Estimate> seconds_to_target;
  std::optional<Estimate> samples_to_target;
  // Pushes by staleness, of the runs that have finished; the last bin is "or more".
  std::vector<uint64_t> staleness;
  std::optional<Comparison> comparison;  // none of the baseline
};

struct Analysis {
  std::vector<ModeFigures> modes;  // the first is the baseline
  Metric metric;
  double equivalence_margin = 0;          // in the metric's unit
  std::optional<double> target_accuracy;  // none where no run has finished
  bool target_is_given = false;
  std::string target_mode;  // whose final accuracy the target follows; empty where given
  // The least that a run which has finished had used and made.
  uint64_t equal_samples = 0;
  uint64_t equal_updates = 0;
};

// What the runs say; no more of them is read than is written here, and the same input has the same
// result. Errors: InvalidArgument: no mode, a mode without runs, a run of another mode, two runs
// of a mode with one seed, a margin or target out of range.
absl::StatusOr<Analysis> Analyze(const std::vector<proto::RunRecord>& runs,
                                 const AnalysisOptions& options);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_STATISTICS_ANALYSIS_H_
