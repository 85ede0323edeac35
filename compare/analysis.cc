#include "compare/analysis.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/require.h"
#include "compare/curve.h"

namespace strata::compare {

namespace {

using RunsOfMode = std::vector<const proto::RunRecord*>;  // by seed

absl::Status CheckOptions(const AnalysisOptions& options) {
  if (options.modes.empty()) return absl::InvalidArgumentError("no mode to compare");
  if (!(options.equivalence_margin > 0 && options.equivalence_margin < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("equivalence margin ",
                                                   options.equivalence_margin * 100,
                                                   " points: not above 0 and below 100"));
  }
  const double target = options.target_accuracy.value_or(0.5);
  if (!options.metric.is_accuracy()) {
    if (std::isfinite(target)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("target ", target, ": not a finite number"));
  }
  if (target > 0 && target <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("target accuracy ", target, ": not above 0 and at most 1"));
}

absl::StatusOr<std::vector<RunsOfMode>> RunsByMode(const std::vector<proto::RunRecord>& runs,
                                                   const std::vector<std::string>& modes) {
  std::vector<RunsOfMode> by_mode(modes.size());
  std::set<std::pair<std::string, uint64_t>> seen;
  for (const proto::RunRecord& run : runs) {
    const auto mode = std::find(modes.begin(), modes.end(), run.mode());
    const std::string name = absl::StrCat("run of \"", run.mode(), "\" with seed ", run.seed());
    if (mode == modes.end()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": not a mode of this comparison"));
    }
    if (!seen.insert({run.mode(), run.seed()}).second) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": there are two"));
    }
    by_mode[mode - modes.begin()].push_back(&run);
  }
  for (size_t i = 0; i < modes.size(); ++i) {
    if (by_mode[i].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("mode \"", modes[i], "\" has no runs"));
    }
    std::sort(by_mode[i].begin(), by_mode[i].end(),
              [](const auto* a, const auto* b) { return a->seed() < b->seed(); });
  }
  return by_mode;
}

RunFigures MakeFigures(const proto::RunRecord& run) {
  RunFigures figures;
  figures.seed = run.seed();
  figures.failure = RunFailure(run);
  if (!figures.failure.empty()) return figures;
  figures.final_accuracy = run.measurements().rbegin()->accuracy();
  figures.trained_s = run.trained_s();
  figures.bytes_per_step = (double(run.bytes_pushed()) + run.bytes_answered()) / run.steps();
  figures.waiting_share = run.waiting_share();
  return figures;
}

// Bins of runs that have different numbers of them: the fewest, as the last one is "or more".
void AddStaleness(const proto::RunRecord& run, std::vector<uint64_t>* staleness) {
  const size_t count = run.staleness_size();
  if (count == 0) return;
  if (staleness->empty()) staleness->resize(count);
  while (staleness->size() > count) {
    const uint64_t last = staleness->back();
    staleness->pop_back();
    staleness->back() += last;
  }
  for (size_t i = 0; i < count; ++i) {
    (*staleness)[std::min(i, staleness->size() - 1)] += run.staleness(i);
  }
}

// Estimates a figure over the finished runs; nothing if one lacks it.
template <typename Get>
std::optional<Estimate> Over(const ModeFigures& mode, bool is_geometric, Get get) {
  std::vector<double> values;
  for (const RunFigures& run : mode.runs) {
    if (!run.failure.empty()) continue;
    const std::optional<double> value = get(run);
    if (!value || (is_geometric && *value <= 0)) return std::nullopt;
    values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return is_geometric ? GeometricMean(values) : Mean(values);
}

void FindTarget(const AnalysisOptions& options, Analysis* analysis) {
  analysis->target_is_given = options.target_accuracy.has_value();
  analysis->target_accuracy = options.target_accuracy;
  if (analysis->target_is_given) return;
  // Larger is better: a figure that should be small changes its sign.
  const double sign = analysis->metric.less_is_better ? -1 : 1;
  double best = -INFINITY, lowest = INFINITY;
  for (const ModeFigures& mode : analysis->modes) {
    if (mode.final_accuracy) best = std::max(best, sign * mode.final_accuracy->mean);
  }
  const double unit = analysis->metric.is_accuracy() ? 1 : std::abs(best);
  for (const ModeFigures& mode : analysis->modes) {
    if (!mode.final_accuracy) continue;
    const double mean = sign * mode.final_accuracy->mean;
    if (mean < best - kTargetRange * unit || mean >= lowest) continue;
    lowest = mean;
    analysis->target_mode = mode.mode;
  }
  if (!std::isfinite(lowest)) return;
  if (analysis->metric.is_accuracy()) {
    // A mean of 0.881 has a target of 0.871, though in binary it is a little less.
    const double tenths = std::floor((lowest - kBelowWorst) * 1000 + 1e-6);
    analysis->target_accuracy = std::max(tenths, 0.0) / 1000;
  } else {
    analysis->target_accuracy = sign * (lowest - kBelowWorst * std::abs(lowest));
  }
}

// Returns where the curve is first as good as y.
std::optional<double> FirstAsGood(Curve curve, double y, const Metric& metric) {
  if (!metric.less_is_better) return FirstCrossing(curve, y);
  for (Point& point : curve) point.y = -point.y;
  return FirstCrossing(curve, -y);
}

// Figures that depend on what the other modes did.
void AddShared(const proto::RunRecord& run, const Analysis& analysis, RunFigures* figures) {
  const Curve by_samples = Smoothed(AccuracyCurve(run, Axis::kSamples));
  const Curve by_updates = Smoothed(AccuracyCurve(run, Axis::kUpdates));
  const Curve by_seconds = Smoothed(AccuracyCurve(run, Axis::kSeconds));
  figures->accuracy_at_equal_samples = ValueAt(by_samples, analysis.equal_samples);
  figures->accuracy_at_equal_updates = ValueAt(by_updates, analysis.equal_updates);
  const double target = *analysis.target_accuracy;
  figures->seconds_to_target = FirstAsGood(by_seconds, target, analysis.metric);
  figures->samples_to_target = FirstAsGood(by_samples, target, analysis.metric);
}

void Summarize(ModeFigures* mode) {
  for (const RunFigures& run : mode->runs) {
    mode->reached += run.failure.empty() && run.seconds_to_target.has_value();
  }
  using Run = const RunFigures&;
  mode->trained_s = Over(*mode, false, [](Run r) { return std::optional(r.trained_s); });
  mode->bytes_per_step = Over(*mode, false, [](Run r) { return std::optional(r.bytes_per_step); });
  mode->waiting_share = Over(*mode, false, [](Run r) { return std::optional(r.waiting_share); });
  mode->accuracy_at_equal_samples =
      Over(*mode, false, [](Run r) { return r.accuracy_at_equal_samples; });
  mode->accuracy_at_equal_updates =
      Over(*mode, false, [](Run r) { return r.accuracy_at_equal_updates; });
  if (mode->reached < int(mode->runs.size())) return;
  mode->seconds_to_target = Over(*mode, true, [](Run r) { return r.seconds_to_target; });
  mode->samples_to_target = Over(*mode, true, [](Run r) { return r.samples_to_target; });
}

Comparison Compare(const ModeFigures& baseline, const ModeFigures& mode, const Metric& metric) {
  Comparison comparison;
  comparison.less_is_better = metric.less_is_better;
  std::vector<double> accuracy, updates, speedup;
  for (const RunFigures& b : baseline.runs) {
    for (const RunFigures& m : mode.runs) {
      if (m.seed != b.seed || !m.failure.empty() || !b.failure.empty()) continue;
      ++comparison.pairs;
      accuracy.push_back(m.final_accuracy - b.final_accuracy);
      if (m.accuracy_at_equal_updates && b.accuracy_at_equal_updates) {
        updates.push_back(*m.accuracy_at_equal_updates - *b.accuracy_at_equal_updates);
      }
      if (m.seconds_to_target.value_or(0) > 0 && b.seconds_to_target.value_or(0) > 0) {
        speedup.push_back(*b.seconds_to_target / *m.seconds_to_target);
      }
    }
  }
  if (comparison.pairs == 0) return comparison;
  const size_t pairs = comparison.pairs;
  comparison.accuracy = Mean(accuracy);
  if (updates.size() == pairs) comparison.at_equal_updates = Mean(updates);
  const bool all_reach = baseline.seconds_to_target && mode.seconds_to_target;
  if (all_reach && speedup.size() == pairs) comparison.speedup = GeometricMean(speedup);
  return comparison;
}

}  // namespace

absl::StatusOr<Analysis> Analyze(const std::vector<proto::RunRecord>& runs,
                                 const AnalysisOptions& options) {
  const absl::Status checked = CheckOptions(options);
  if (!checked.ok()) return checked;
  const absl::StatusOr<std::vector<RunsOfMode>> by_mode = RunsByMode(runs, options.modes);
  if (!by_mode.ok()) return by_mode.status();

  Analysis analysis;
  analysis.metric = options.metric;
  analysis.equivalence_margin = options.equivalence_margin;
  analysis.equal_samples = analysis.equal_updates = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < options.modes.size(); ++i) {
    ModeFigures mode;
    mode.mode = options.modes[i];
    for (const proto::RunRecord* run : (*by_mode)[i]) {
      mode.runs.push_back(MakeFigures(*run));
      const bool has_failed = !mode.runs.back().failure.empty();
      mode.failed += has_failed;
      if (has_failed) continue;
      const proto::Measurement& last = *run->measurements().rbegin();
      analysis.equal_samples = std::min(analysis.equal_samples, last.samples());
      analysis.equal_updates = std::min(analysis.equal_updates, last.updates());
      AddStaleness(*run, &mode.staleness);
    }
    mode.final_accuracy =
        Over(mode, false, [](const RunFigures& r) { return std::optional(r.final_accuracy); });
    analysis.modes.push_back(std::move(mode));
  }
  const bool none_finished = std::none_of(analysis.modes.begin(), analysis.modes.end(),
                                          [](const auto& mode) { return mode.final_accuracy; });
  if (none_finished) analysis.equal_samples = analysis.equal_updates = 0;
  const std::optional<Estimate>& baseline = analysis.modes.front().final_accuracy;
  if (!options.metric.is_accuracy() && baseline) {
    analysis.equivalence_margin *= std::abs(baseline->mean);
  }
  FindTarget(options, &analysis);
  for (size_t i = 0; i < analysis.modes.size(); ++i) {
    ModeFigures& mode = analysis.modes[i];
    for (size_t k = 0; k < mode.runs.size(); ++k) {
      if (mode.runs[k].failure.empty()) AddShared(*(*by_mode)[i][k], analysis, &mode.runs[k]);
    }
    Summarize(&mode);
    if (i > 0) mode.comparison = Compare(analysis.modes[0], mode, options.metric);
  }
  return analysis;
}

namespace {

std::optional<double> ValueOf(const Metric& metric, const proto::Measurement& measurement) {
  if (metric.is_accuracy()) {
    return measurement.has_accuracy() ? std::optional(measurement.accuracy()) : std::nullopt;
  }
  if (metric.name == "test_loss") {
    return measurement.has_loss() ? std::optional(measurement.loss()) : std::nullopt;
  }
  const auto value = measurement.values().find(metric.name);
  return value == measurement.values().end() ? std::nullopt : std::optional(value->second);
}

// Says which figures of a test a run has in place of the metric.
std::string WhyLacking(const Metric& metric, const std::set<std::string>& names) {
  const std::string others =
      absl::StrCat(absl::StrJoin(names, ", "), ": --metric NAME takes one of those");
  if (metric.name == "loss") {
    return absl::StrCat("loss is that of training steps, by which no run is judged; ",
                        names.empty() ? "no figure of a test was reported, such as test_loss"
                                      : "reported were " + others);
  }
  return absl::StrCat("no ", metric.name, " was reported, ",
                      names.empty() ? "nor any other figure of a test" : "but " + others);
}

std::set<std::string> NamesIn(const proto::RunRecord& run) {
  std::set<std::string> names;
  for (const proto::Measurement& measurement : run.measurements()) {
    if (measurement.has_accuracy()) names.insert("test_accuracy");
    if (measurement.has_loss()) names.insert("test_loss");
    for (const auto& [name, value] : measurement.values()) names.insert(name);
  }
  return names;
}

}  // namespace

absl::StatusOr<Metric> MakeMetric(const std::string& name, const std::string& goal) {
  Metric metric{.name = name, .less_is_better = name == "test_loss"};
  if (!goal.empty()) metric.less_is_better = goal == "min";
  if (!goal.empty() && goal != "min" && goal != "max") {
    return absl::InvalidArgumentError(absl::StrCat("goal ", goal, ": min or max"));
  }
  if (metric.is_accuracy() && metric.less_is_better) {
    return absl::InvalidArgumentError("goal min: test_accuracy is to be large");
  }
  return metric;
}

absl::Status CheckCanHave(const proto::Job& job, const Metric& metric) {
  if (job.has_program() || metric.is_accuracy() || metric.name == "test_loss") {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "metric ", metric.name, ": a model of the zoo reports test_accuracy and test_loss alone"));
}

proto::RunRecord ByMetric(const Metric& metric, proto::RunRecord run) {
  std::vector<proto::Measurement> having;
  for (const proto::Measurement& measurement : run.measurements()) {
    const std::optional<double> value = ValueOf(metric, measurement);
    if (!value) continue;
    having.push_back(measurement);
    having.back().set_accuracy(*value);
  }
  if (having.empty() && run.failure().empty() && run.steps() > 0) {
    run.set_failure(WhyLacking(metric, NamesIn(run)));
  }
  run.mutable_measurements()->Assign(having.begin(), having.end());
  return run;
}

double StudentQuantile(int degrees_of_freedom) {
  STRATA_REQUIRE(degrees_of_freedom >= 1);
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), 0.975);
}

Estimate Mean(const std::vector<double>& values) {
  STRATA_REQUIRE(!values.empty());
  Estimate estimate;
  const double count = values.size();
  estimate.count = values.size();
  for (const double value : values) estimate.mean += value / count;
  if (values.size() < 2) return estimate;
  double squares = 0;
  for (const double value : values) squares += (value - estimate.mean) * (value - estimate.mean);
  const double half =
      StudentQuantile(estimate.count - 1) * std::sqrt(squares / (count - 1)) / std::sqrt(count);
  estimate.interval = Interval{estimate.mean - half, estimate.mean + half};
  return estimate;
}

Estimate GeometricMean(const std::vector<double>& values) {
  std::vector<double> logarithms;
  for (const double value : values) {
    STRATA_REQUIRE(value > 0);
    logarithms.push_back(std::log(value));
  }
  Estimate estimate = Mean(logarithms);
  estimate.mean = std::exp(estimate.mean);
  if (estimate.interval) {
    *estimate.interval = {std::exp(estimate.interval->low), std::exp(estimate.interval->high)};
  }
  return estimate;
}

}  // namespace strata::compare
