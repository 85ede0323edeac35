#include "compare/report/content.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compare/figure_text.h"

namespace strata::compare {
namespace {

constexpr int kCurvePointsMax = 200;
constexpr char kNone[] = "-";

// Returns `interval` in brackets, if it is shown.
std::string WithInterval(const std::string& mean, const Estimate& estimate,
                         const std::string& interval) {
  return absl::StrCat(mean, " (", estimate.shows_interval() ? interval : SeedsText(estimate.count),
                      ")");
}

std::string AccuracyCell(const Metric& metric, const std::optional<Estimate>& accuracy) {
  if (!accuracy) return kNone;
  const std::string mean = ValueText(metric, accuracy->mean, 2);
  return accuracy->interval
             ? WithInterval(mean, *accuracy, ValueText(metric, *accuracy->interval, 2))
             : mean;
}

std::string DifferenceCell(const Metric& metric, const std::optional<Estimate>& difference) {
  if (!difference) return kNone;
  const std::string mean = DifferenceText(metric, difference->mean);
  return difference->interval
             ? WithInterval(mean, *difference, DifferenceText(metric, *difference->interval))
             : mean;
}

std::string TimeCell(const ModeFigures& mode) {
  if (mode.seconds_to_target) {
    const Estimate& time = *mode.seconds_to_target;
    const std::string mean = SecondsText(time.mean);
    return time.interval ? WithInterval(mean, time, SecondsText(*time.interval)) : mean;
  }
  return absl::StrCat("in ", mode.reached, " of ", mode.runs.size(), " runs");
}

std::string SpeedupCell(const std::optional<Estimate>& speedup) {
  if (!speedup) return kNone;
  const std::string mean = absl::StrCat(RatioText(speedup->mean), " x");
  return speedup->interval ? WithInterval(mean, *speedup, RatioText(*speedup->interval)) : mean;
}

std::string RunsCell(const ModeFigures& mode) {
  if (mode.failed == 0) return absl::StrCat(mode.runs.size());
  return absl::StrCat(mode.runs.size(), ", ", mode.failed, " failed");
}

std::vector<std::vector<std::string>> RowsOf(const Analysis& analysis) {
  const Metric& metric = analysis.metric;
  const std::string target =
      analysis.target_accuracy
          ? absl::StrCat("time to ", ValueText(metric, *analysis.target_accuracy, 1))
          : "time to target";
  std::vector<std::vector<std::string>> rows = {
      {"mode", metric.words(), metric.is_accuracy() ? "difference (points)" : "difference",
       "at equal updates", target, "speed-up", "bytes/step", "waiting", "staleness", "runs"}};
  for (const ModeFigures& mode : analysis.modes) {
    const Comparison comparison = mode.comparison.value_or(Comparison{});
    const std::optional<double> staleness = MeanStaleness(mode.staleness);
    rows.push_back({mode.mode, AccuracyCell(metric, mode.final_accuracy),
                    DifferenceCell(metric, comparison.accuracy),
                    mode.accuracy_at_equal_updates
                        ? ValueText(metric, mode.accuracy_at_equal_updates->mean, 2)
                        : kNone,
                    TimeCell(mode), SpeedupCell(comparison.speedup),
                    mode.bytes_per_step ? BytesText(mode.bytes_per_step->mean) : kNone,
                    mode.waiting_share ? PercentText(mode.waiting_share->mean, 1) : kNone,
                    staleness ? absl::StrFormat("%.2f", *staleness) : kNone, RunsCell(mode)});
  }
  return rows;
}

// The runs of a mode, by seed.
std::vector<const proto::RunRecord*> RunsOf(const ReportInput& input, const std::string& mode) {
  std::vector<const proto::RunRecord*> runs;
  for (const proto::RunRecord& run : input.runs) {
    if (run.mode() == mode) runs.push_back(&run);
  }
  std::sort(runs.begin(), runs.end(),
            [](const auto* a, const auto* b) { return a->seed() < b->seed(); });
  return runs;
}

CurveSet CurveSetOf(const std::vector<const proto::RunRecord*>& runs, Axis axis,
                    Curve (*curve)(const proto::RunRecord&, Axis)) {
  CurveSet set;
  std::vector<Curve> finished;
  for (const proto::RunRecord* run : runs) {
    if (RunFailure(*run).empty()) {
      finished.push_back(curve(*run, axis));
    } else {
      set.failed.push_back({run->seed(), curve(*run, axis)});
    }
  }
  if (!finished.empty()) set.mean = MeanCurve(finished, kCurvePointsMax);
  return set;
}

std::vector<ModeCurves> CurvesOf(const ReportInput& input) {
  std::vector<ModeCurves> all;
  for (const std::string& mode : input.modes) {
    ModeCurves& curves = all.emplace_back();
    const std::vector<const proto::RunRecord*> runs = RunsOf(input, mode);
    for (size_t i = 0; i < kAxes.size(); ++i) {
      curves.accuracy[i] = CurveSetOf(runs, kAxes[i], AccuracyCurve);
      curves.loss[i] = CurveSetOf(runs, kAxes[i], LossCurve);
    }
  }
  return all;
}

bool IsOfProgram(const ReportInput& input) {
  return !input.runs.empty() && input.runs.front().job().has_program();
}

std::string RunsRule(const ReportInput& input) {
  std::set<uint64_t> seeds;
  for (const proto::RunRecord& run : input.runs) seeds.insert(run.seed());
  return absl::StrCat("The same job in each mode, with seed", seeds.size() == 1 ? " " : "s ",
                      absl::StrJoin(seeds, ", "),
                      IsOfProgram(input)
                          ? ". A seed is the same for the program in every mode."
                          : ". A seed gives every mode the same first weights and data order.");
}

std::vector<std::string> RulesOf(const ReportInput& input, const Analysis& analysis) {
  const std::string& baseline = analysis.modes.front().mode;
  std::vector<std::string> rules = {RunsRule(input)};
  if (!input.straggler.empty()) {
    rules.push_back(absl::StrCat("Slowed down on purpose: ", input.straggler, "."));
  }
  if (!input.tuning.empty()) rules.push_back(input.tuning);
  const std::string words = analysis.metric.words();
  rules.push_back(absl::StrCat("Time counts from the first step, without the time in which ", words,
                               " was measured."));
  rules.push_back(absl::StrCat(
      analysis.metric.is_accuracy() && !IsOfProgram(input)
          ? "Final accuracy: of the final weights on the test data."
          : absl::StrCat("Final ", words, ": the last that rank 0 of the program reported."),
      " A run that failed is in no mean."));
  if (!analysis.metric.is_accuracy()) {
    rules.push_back(
        absl::StrCat(analysis.metric.less_is_better ? "Less " : "More ", words, " is better."));
  }
  if (analysis.target_accuracy) {
    rules.push_back(absl::StrCat("Target: ", TargetText(analysis), ". It is reached where the ",
                                 words,
                                 " curve, smoothed by a median "
                                 "of three, first crosses it; a mode has a time where all its "
                                 "runs do."));
  }
  rules.push_back(absl::StrCat(
      "Intervals: 95 %, Student's t over seeds, shown from ", kSeedsForInterval,
      " seeds on; differences from ", baseline,
      " in pairs of one seed, ratios of times on the log scale. Each is of one comparison by "
      "itself, not adjusted for how many there are."));
  rules.push_back(absl::StrCat(
      "Equal: the interval of the difference lies within +-",
      MarginText(analysis.metric, analysis.equivalence_margin),
      "; as soon: that of the ratio within 5 %. Better, worse, sooner, later: it excludes no "
      "difference. Else no significant difference."));
  if (analysis.target_accuracy) {
    rules.push_back(absl::StrFormat(
        "Equal updates: %s after %d updates of the weights, the fewest of a run; equal "
        "samples: after %d.",
        words, analysis.equal_updates, analysis.equal_samples));
  }
  rules.push_back(
      "Curves: means over seeds; bands: from the least to the greatest seed. Failed runs: thin.");
  rules.push_back(
      "Bytes per step: frames of all nodes, both ways. Waiting: share of the ranks' time in which "
      "they waited for weights. Staleness: of pushes, in clocks or updates.");
  return rules;
}

}  // namespace

std::optional<double> MeanStaleness(const std::vector<uint64_t>& bins) {
  double pushes = 0, sum = 0;
  for (size_t i = 0; i < bins.size(); ++i) {
    pushes += bins[i];
    sum += double(i) * bins[i];
  }
  if (pushes == 0) return std::nullopt;
  return sum / pushes;
}

absl::StatusOr<Content> MakeContent(const ReportInput& input) {
  AnalysisOptions options;
  options.modes = input.modes;
  options.target_accuracy = input.target_accuracy;
  options.equivalence_margin = input.equivalence_margin;
  options.metric = input.metric;
  absl::StatusOr<Analysis> analysis = Analyze(input.runs, options);
  if (!analysis.ok()) return analysis.status();
  Content content;
  content.analysis = *std::move(analysis);
  content.verdict = MakeVerdict(content.analysis);
  content.curves = CurvesOf(input);
  content.rows = RowsOf(content.analysis);
  content.rules = RulesOf(input, content.analysis);
  return content;
}

}  // namespace strata::compare
