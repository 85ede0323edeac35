#ifndef STRATA_COMPARE_ANALYSIS_H_
#define STRATA_COMPARE_ANALYSIS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"
#include "proto/job.pb.h"

namespace strata::compare {

// The value by which runs are judged: the accuracy on the test data, or one that their program
// reports. In compare/, accuracy stands for the metric.
struct Metric {
  std::string name = "test_accuracy";  // or "test_loss", or one of the reports' values
  bool less_is_better = false;

  // Whether it is a share from 0 to 1, written in percent, with differences in points. Others are
  // plain numbers, and a margin is a share of the baseline's.
  bool is_accuracy() const { return name == "test_accuracy"; }
  // "accuracy", or its name.
  std::string words() const { return is_accuracy() ? "accuracy" : name; }
};

// `goal` is "min", "max" or empty: "min" for test_loss, otherwise "max". Errors: InvalidArgument:
// another goal, or "min" for accuracy.
absl::StatusOr<Metric> MakeMetric(const std::string& name, const std::string& goal);

// Errors: InvalidArgument: the job reports no such value, whatever becomes of it. What a program
// reports is known once it has run.
absl::Status CheckCanHave(const proto::Job& job, const Metric& metric);

// Returns the run as seen by the metric: the measurements that have it, with its value as their
// accuracy. A run that finished without any counts as failed.
proto::RunRecord ByMetric(const Metric& metric, proto::RunRecord run);

struct Interval {
  double low = 0;
  double high = 0;
};

// With fewer seeds an interval is useless to a reader: Student's factor is 12.7 for two. It is
// computed, and used for judging, but not shown.
inline constexpr int kSeedsForInterval = 3;

// A mean over seeds, in the unit of the values.
struct Estimate {
  double mean = 0;
  int count = 0;                     // of values
  std::optional<Interval> interval;  // 95 %; none for fewer than two values

  bool shows_interval() const { return interval.has_value() && count >= kSeedsForInterval; }
};

// The 0.975 quantile of Student's t distribution. REQUIRES: degrees_of_freedom >= 1.
double StudentQuantile(int degrees_of_freedom);

// The arithmetic mean, mean +- t s / sqrt(n), with s the values' standard deviation over n - 1
// and t Student's quantile with n - 1 degrees of freedom. REQUIRES: values not empty, finite.
Estimate Mean(const std::vector<double>& values);

// exp of the mean of the logarithms: the interval is a ratio around the mean and never reaches 0.
// REQUIRES: values not empty, above 0.
Estimate GeometricMean(const std::vector<double>& values);

// Accuracies are shares from 0 to 1 here, and a point is 0.01, unless a metric replaces them.

// A mode whose mean final accuracy is further below the best mode's than this does not lower the
// target: a mode that has not learnt would make the target meaningless.
inline constexpr double kTargetRange = 0.10;
// How much worse than the worst mode's the target is. For other metrics than accuracy both are
// shares of the value.
inline constexpr double kBelowWorst = 0.01;

struct AnalysisOptions {
  // The first is the baseline; each has a run.
  std::vector<std::string> modes;
  // The accuracy to which times are measured; none: 0.01 below the lowest mean final accuracy of a
  // mode (but see kTargetRange), rounded down to 0.001.
  std::optional<double> target_accuracy;
  // Final accuracies that differ by less count as equal. Above 0, below 1; for other metrics a
  // share of the baseline's mean.
  double equivalence_margin = 0.005;
  Metric metric;
};

// Figures of one run.
struct RunFigures {
  uint64_t seed = 0;
  std::string failure;  // if set, the rest is meaningless
  double final_accuracy = 0;
  double trained_s = 0;
  double bytes_per_step = 0;
  double waiting_share = 0;
  // Read from the smoothed curve; absent if the curve ends before.
  std::optional<double> accuracy_at_equal_samples;
  std::optional<double> accuracy_at_equal_updates;
  std::optional<double> seconds_to_target;
  std::optional<double> samples_to_target;
};

// A mode against the baseline, over the seeds with which both have finished, in pairs.
struct Comparison {
  int pairs = 0;
  std::optional<Estimate> accuracy;          // final, mode - baseline; none without pairs
  std::optional<Estimate> at_equal_updates;  // mode - baseline; none if a pair lacks it
  // Baseline's seconds to the target / mode's, geometric: above 1 the mode is faster. None unless
  // both reach it in all runs.
  std::optional<Estimate> speedup;
  bool less_is_better = false;
};

struct ModeFigures {
  std::string mode;
  std::vector<RunFigures> runs;  // by seed
  int failed = 0;
  int reached = 0;  // runs that have finished and reached the target
  // Estimates over the finished runs; none if there are none, or if one lacks the value.
  std::optional<Estimate> final_accuracy;
  std::optional<Estimate> accuracy_at_equal_samples;
  std::optional<Estimate> accuracy_at_equal_updates;
  std::optional<Estimate> trained_s;
  std::optional<Estimate> bytes_per_step;  // of all nodes, in both directions
  std::optional<Estimate> waiting_share;
  // Geometric; none unless all runs have reached the target.
  std::optional<Estimate> seconds_to_target;
  std::optional<Estimate> samples_to_target;
  // Pushes by staleness, of the runs that have finished; the last bin is "or more".
  std::vector<uint64_t> staleness;
  std::optional<Comparison> comparison;  // none for the baseline
};

struct Analysis {
  std::vector<ModeFigures> modes;  // the first is the baseline
  Metric metric;
  double equivalence_margin = 0;          // in the metric's unit
  std::optional<double> target_accuracy;  // none if no run has finished
  bool target_is_given = false;
  std::string target_mode;  // the mode whose final accuracy determines the target; empty if given
  // The minimum over finished runs of samples used and updates made.
  uint64_t equal_samples = 0;
  uint64_t equal_updates = 0;
};

// Computes the figures of the runs. A pure function. Errors: InvalidArgument: no mode, a mode
// without runs, a run of another mode, two runs of a mode with one seed, a margin or target out of
// range.
absl::StatusOr<Analysis> Analyze(const std::vector<proto::RunRecord>& runs,
                                 const AnalysisOptions& options);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_ANALYSIS_H_
