#include "compare/verdict.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compare/figure_text.h"

namespace strata::compare {
namespace {

constexpr char kOnePair[] = "one pair of runs: no interval";

// In place of an interval.
std::string TooFew(const Estimate& estimate) {
  if (!estimate.interval) return kOnePair;
  return absl::StrCat(SeedsText(estimate.count), ": too few for an interval");
}

std::string InBrackets(const Estimate& ratio) {
  if (!ratio.shows_interval()) return absl::StrCat(" (", TooFew(ratio), ")");
  return absl::StrCat(" (", RatioText(*ratio.interval), ")");
}

// "0.12 points", or of another metric "0.12".
std::string SizeText(const Metric& metric, double difference) {
  return metric.is_accuracy() ? absl::StrFormat("%.2f points", difference * 100)
                              : absl::StrFormat("%.3g", difference);
}

std::string SignedText(const Metric& metric, double difference) {
  return absl::StrCat(DifferenceText(metric, difference), metric.is_accuracy() ? " points" : "");
}

// 1 / ratio: how much later.
Estimate Inverse(const Estimate& estimate) {
  Estimate inverse = estimate;
  inverse.mean = 1 / estimate.mean;
  if (estimate.interval)
    inverse.interval = {1 / estimate.interval->high, 1 / estimate.interval->low};
  return inverse;
}

// The interval of how much worse, as of how much better.
std::string ByPoints(const Metric& metric, const Estimate& difference) {
  const double sign = difference.mean < 0 ? -1 : 1;
  const double a = sign * difference.interval->low, b = sign * difference.interval->high;
  const double low = std::min(a, b), high = std::max(a, b);
  if (!difference.shows_interval()) {
    return absl::StrCat("by ", SizeText(metric, sign * difference.mean), " (", TooFew(difference),
                        ")");
  }
  return absl::StrCat("by ", SizeText(metric, sign * difference.mean), " (",
                      metric.is_accuracy() ? absl::StrFormat("%.2f to %.2f", low * 100, high * 100)
                                           : absl::StrFormat("%.3g to %.3g", low, high),
                      ")");
}

std::string AccuracyText(const Analysis& analysis, const Comparison& comparison) {
  const Metric& metric = analysis.metric;
  const std::string& baseline = analysis.modes.front().mode;
  const double margin = analysis.equivalence_margin;
  if (!comparison.accuracy) return absl::StrCat("no seed with which ", baseline, " finished, too");
  const Estimate& difference = *comparison.accuracy;
  const std::string by = SignedText(metric, difference.mean);
  const std::string interval =
      difference.shows_interval()
          ? absl::StrCat("interval ", DifferenceText(metric, *difference.interval))
          : TooFew(difference);
  switch (JudgeAccuracy(comparison, margin)) {
    case AccuracyFinding::kEqual:
      return absl::StrCat("equal to ", baseline, "'s within ", MarginText(metric, margin), " (",
                          DifferenceText(metric, difference.mean), ", ", interval, ")");
    case AccuracyFinding::kBetter:
      return absl::StrCat("better than ", baseline, "'s ", ByPoints(metric, difference));
    case AccuracyFinding::kWorse:
      return absl::StrCat("worse than ", baseline, "'s ", ByPoints(metric, difference));
    case AccuracyFinding::kUndecided:
      return absl::StrCat("no significant difference from ", baseline, "'s (", by, ", ", interval,
                          ")");
    case AccuracyFinding::kUnknown:
      break;
  }
  return absl::StrCat(by, " from ", baseline, "'s (", kOnePair, ")");
}

// The predicate "is sooner" or "is later", without the target.
std::string SpeedText(const Estimate& speedup) {
  if (speedup.mean >= 1) {
    return absl::StrCat(RatioText(speedup.mean), " x sooner", InBrackets(speedup));
  }
  const Estimate slowdown = Inverse(speedup);
  return absl::StrCat(RatioText(slowdown.mean), " x later", InBrackets(slowdown));
}

std::string ReachedText(const ModeFigures& mode, const std::string& target) {
  if (mode.reached == 0) return absl::StrCat("does not reach ", target);
  if (mode.reached < int(mode.runs.size())) {
    return absl::StrCat("reaches ", target, " in ", mode.reached, " of ", mode.runs.size(),
                        " runs only");
  }
  if (!mode.seconds_to_target) return absl::StrCat("reaches ", target, " from the first");
  return absl::StrCat("reaches ", target, " after ", SecondsText(mode.seconds_to_target->mean));
}

std::string TimeText(const ModeFigures& mode, const ModeFigures& baseline,
                     const std::string& target) {
  if (!mode.comparison || !mode.comparison->speedup) {
    const std::string reached = ReachedText(mode, target);
    const bool only_baseline_fails =
        mode.comparison && mode.seconds_to_target && baseline.reached < int(baseline.runs.size());
    if (!only_baseline_fails) return reached;
    return absl::StrCat(reached, ", ", baseline.mode, " in ", baseline.reached, " of ",
                        baseline.runs.size(), " runs");
  }
  const Estimate& speedup = *mode.comparison->speedup;
  const TimeFinding finding = JudgeTime(*mode.comparison);
  if (finding != TimeFinding::kUndecided && finding != TimeFinding::kEqual) {
    return absl::StrCat("reaches ", target, " ", SpeedText(speedup));
  }
  const std::string interval = speedup.shows_interval()
                                   ? absl::StrCat("interval ", RatioText(*speedup.interval))
                                   : TooFew(speedup);
  const std::string ratio = absl::StrCat(" (ratio ", RatioText(speedup.mean), ", ", interval, ")");
  if (finding == TimeFinding::kEqual) {
    return absl::StrCat("reaches ", target, " as soon within 5 %", ratio);
  }
  return absl::StrCat("no significant difference in time to ", target, ratio);
}

std::string FailuresText(const ModeFigures& mode) {
  const auto failed = std::find_if(mode.runs.begin(), mode.runs.end(),
                                   [](const RunFigures& run) { return !run.failure.empty(); });
  if (failed == mode.runs.end()) return "";
  const std::string why = absl::StrCat(" (seed ", failed->seed, ": ", failed->failure, ")");
  const int runs = mode.runs.size();
  if (mode.failed == runs) {
    return absl::StrCat(runs == 1 ? "its run" : absl::StrCat("all ", runs, " runs"), " failed",
                        why);
  }
  return absl::StrCat(mode.failed, " of ", runs, " runs failed", why,
                      mode.failed == 1 ? " and is" : " and are", " in no mean");
}

// "88.1 %", or "perplexity 12.35".
std::string TargetWords(const Analysis& analysis) {
  const std::string value = ValueText(analysis.metric, *analysis.target_accuracy, 1);
  return analysis.metric.is_accuracy() ? value : absl::StrCat(analysis.metric.name, " ", value);
}

std::string ModeText(const Analysis& analysis, const ModeFigures& mode) {
  const ModeFigures& baseline = analysis.modes.front();
  const std::string failures = FailuresText(mode);
  if (!mode.final_accuracy) return absl::StrCat(mode.mode, ": ", failures, ".");
  const Metric& metric = analysis.metric;
  const std::string target = TargetWords(analysis);
  const Estimate& accuracy = *mode.final_accuracy;
  std::string text =
      absl::StrCat(mode.mode, ": ", metric.words(), " ", ValueText(metric, accuracy.mean, 2));
  if (mode.comparison) {
    absl::StrAppend(&text, ", ", AccuracyText(analysis, *mode.comparison));
  } else if (accuracy.shows_interval()) {
    absl::StrAppend(&text, " (", ValueText(metric, *accuracy.interval, 2), ")");
  }
  absl::StrAppend(&text, "; ", TimeText(mode, baseline, target), ".");
  if (!failures.empty()) absl::StrAppend(&text, " But ", failures, ".");
  return text;
}

// The modes that are sooner than the baseline, the largest ratio first.
std::vector<const ModeFigures*> SoonerModes(const Analysis& analysis) {
  std::vector<const ModeFigures*> sooner;
  for (const ModeFigures& mode : analysis.modes) {
    if (mode.comparison && JudgeTime(*mode.comparison) == TimeFinding::kSooner) {
      sooner.push_back(&mode);
    }
  }
  std::stable_sort(sooner.begin(), sooner.end(), [](const auto* a, const auto* b) {
    return a->comparison->speedup->mean > b->comparison->speedup->mean;
  });
  return sooner;
}

// "async 1.82 x": its interval stands in the mode's own verdict, as those below do.
std::string NameAndSpeed(const ModeFigures& mode) {
  return absl::StrCat(mode.mode, " ", RatioText(mode.comparison->speedup->mean), " x");
}

// "by 1.40 points".
std::string ByMeanPoints(const Metric& metric, const Comparison& comparison) {
  return absl::StrCat("by ", SizeText(metric, std::abs(comparison.accuracy->mean)));
}

std::string WhyNotAsAccurate(const Metric& metric, const Comparison& comparison,
                             AccuracyFinding finding) {
  if (finding == AccuracyFinding::kWorse) {
    return absl::StrCat("worse ", ByMeanPoints(metric, comparison));
  }
  if (!comparison.accuracy->shows_interval()) {
    return absl::StrCat("undecided, ", TooFew(*comparison.accuracy));
  }
  return absl::StrCat("undecided, ", DifferenceText(metric, *comparison.accuracy->interval),
                      metric.is_accuracy() ? " points" : "");
}

std::string NoneSooner(const Analysis& analysis, const std::string& target) {
  const ModeFigures& baseline = analysis.modes.front();
  if (!baseline.seconds_to_target) {
    return absl::StrCat(baseline.mode, " reaches ", target, " in ", baseline.reached, " of ",
                        baseline.runs.size(), " runs: times to it are not compared.");
  }
  return absl::StrCat("No mode was shown to be sooner to ", target, " than ", baseline.mode,
                      " at equal ", analysis.metric.words(), ".");
}

// The modes with that finding: "lazy by 1.20 points" or, of kEqual, "lazy".
std::vector<std::string> ModesThatAre(AccuracyFinding finding, const Analysis& analysis) {
  std::vector<std::string> names;
  for (const ModeFigures& mode : analysis.modes) {
    if (!mode.comparison || mode.failed > 0) continue;
    if (JudgeAccuracy(*mode.comparison, analysis.equivalence_margin) != finding) continue;
    const bool is_equal = finding == AccuracyFinding::kEqual;
    names.push_back(
        is_equal ? mode.mode
                 : absl::StrCat(mode.mode, " ", ByMeanPoints(analysis.metric, *mode.comparison)));
  }
  return names;
}

void JudgeAll(const Analysis& analysis, Verdict* verdict) {
  const ModeFigures& baseline = analysis.modes.front();
  const double margin = analysis.equivalence_margin;
  const Metric& metric = analysis.metric;
  const std::string target = TargetWords(analysis);
  const std::string as_good =
      metric.is_accuracy() ? "as accurate" : absl::StrCat("as good by ", metric.name);
  std::vector<std::string> as_accurate, others;
  for (const ModeFigures* mode : SoonerModes(analysis)) {
    const AccuracyFinding finding = JudgeAccuracy(*mode->comparison, margin);
    if (finding == AccuracyFinding::kEqual || finding == AccuracyFinding::kBetter) {
      as_accurate.push_back(NameAndSpeed(*mode));
    } else {
      others.push_back(absl::StrCat(NameAndSpeed(*mode), " (", metric.words(), " ",
                                    WhyNotAsAccurate(metric, *mode->comparison, finding), ")"));
    }
  }
  verdict->overall = as_accurate.empty()
                         ? NoneSooner(analysis, target)
                         : absl::StrCat("Sooner to ", target, " than ", baseline.mode, ", and ",
                                        as_good, ": ", absl::StrJoin(as_accurate, ", "), ".");
  if (!others.empty()) {
    verdict->further = absl::StrCat("Sooner, but not shown to be ", as_good, ": ",
                                    absl::StrJoin(others, ", "), ".");
  } else if (as_accurate.empty()) {
    const std::vector<std::string> better = ModesThatAre(AccuracyFinding::kBetter, analysis);
    const std::vector<std::string> equal = ModesThatAre(AccuracyFinding::kEqual, analysis);
    if (!better.empty()) {
      verdict->further = absl::StrCat(
          metric.is_accuracy() ? "More accurate: " : absl::StrCat("Better ", metric.name, ": "),
          absl::StrJoin(better, ", "), ".");
    } else if (!equal.empty()) {
      verdict->further = absl::StrCat(
          metric.is_accuracy() ? "Equally accurate" : absl::StrCat("Equal ", metric.name),
          " within ", MarginText(metric, margin), ": ", absl::StrJoin(equal, ", "), ".");
    }
  }
}

// ---- which mode ----

constexpr int kSeedsToAddMax = 20;

// The name without settings where no other mode has it.
std::string ShortName(const Analysis& analysis, const ModeFigures& mode) {
  const std::string name = PartsOfMode(mode.mode).name;
  const auto same =
      std::count_if(analysis.modes.begin(), analysis.modes.end(),
                    [&](const ModeFigures& other) { return PartsOfMode(other.mode).name == name; });
  return same == 1 ? name : mode.mode;
}

// How many seeds more are likely to bring half the width of an interval, which is `half` now, below
// `wanted`: the values' spread stays, Student's factor and the square root of their number do not.
int SeedsToAdd(int seeds, double half, double wanted) {
  if (seeds < 2) return kSeedsForInterval - seeds;
  const double spread = half * std::sqrt(seeds) / StudentQuantile(seeds - 1);
  int add = std::max(1, kSeedsForInterval - seeds);
  while (add < kSeedsToAddMax &&
         StudentQuantile(seeds + add - 1) * spread / std::sqrt(seeds + add) >= wanted) {
    ++add;
  }
  return add;
}

std::string AddText(int seeds) {
  return absl::StrCat("add ", seeds, seeds == 1 ? " seed" : " seeds",
                      seeds >= kSeedsToAddMax ? " or more" : "");
}

int SeedsForSpeed(const Estimate& speedup) {
  const double half =
      speedup.interval ? std::log(speedup.interval->high / speedup.interval->low) / 2 : 0;
  return SeedsToAdd(speedup.count, half, std::abs(std::log(speedup.mean)));
}

// Until the difference excludes 0 or lies within the margin, whichever is nearer.
int SeedsForAccuracy(const Estimate& difference, double margin) {
  const double half =
      difference.interval ? (difference.interval->high - difference.interval->low) / 2 : 0;
  const double size = std::abs(difference.mean);
  return SeedsToAdd(difference.count, half, std::max(size, margin - size));
}

bool IsAsAccurate(AccuracyFinding finding) {
  return finding == AccuracyFinding::kEqual || finding == AccuracyFinding::kBetter;
}

// A mode beside the baseline, as far as the answer asks.
struct Candidate {
  const ModeFigures* mode;
  AccuracyFinding accuracy;
  TimeFinding time;

  double speedup() const { return mode->comparison->speedup->mean; }
};

// Modes that finished with all seeds and whose time can be compared, the soonest first.
std::vector<Candidate> CandidatesOf(const Analysis& analysis) {
  std::vector<Candidate> candidates;
  for (const ModeFigures& mode : analysis.modes) {
    if (!mode.comparison || !mode.comparison->speedup || !mode.comparison->accuracy) continue;
    if (mode.failed > 0) continue;
    candidates.push_back({&mode, JudgeAccuracy(*mode.comparison, analysis.equivalence_margin),
                          JudgeTime(*mode.comparison)});
  }
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.speedup() > b.speedup(); });
  return candidates;
}

std::string UseText(const Analysis& analysis, const Candidate& best) {
  const std::string words = analysis.metric.words();
  const std::string accuracy =
      best.accuracy == AccuracyFinding::kBetter
          ? absl::StrCat("better ", words, " ",
                         ByMeanPoints(analysis.metric, *best.mode->comparison))
          : absl::StrCat("equal ", words);
  return absl::StrCat("Use ", ShortName(analysis, *best.mode), ": it reaches ",
                      TargetWords(analysis), " ", RatioText(best.speedup()), " x sooner than ",
                      ShortName(analysis, analysis.modes.front()),
                      InBrackets(*best.mode->comparison->speedup), ", with ", accuracy, ".");
}

// The answer for a mode whose time is undecided.
std::string LooksSooner(const Analysis& analysis, const Candidate& best) {
  const Estimate& speedup = *best.mode->comparison->speedup;
  int add = SeedsForSpeed(speedup);
  if (!IsAsAccurate(best.accuracy)) {
    add = std::max(add,
                   SeedsForAccuracy(*best.mode->comparison->accuracy, analysis.equivalence_margin));
  }
  return absl::StrCat("Undecided: ", ShortName(analysis, *best.mode), " looks ",
                      RatioText(speedup.mean), " x sooner than ",
                      ShortName(analysis, analysis.modes.front()), InBrackets(speedup), ": ",
                      AddText(add), ".");
}

// Returns the caveat for a faster mode.
std::string MayBeWorse(const Analysis& analysis, const Candidate& best) {
  const Comparison& comparison = *best.mode->comparison;
  return absl::StrCat(
      "Undecided: ", ShortName(analysis, *best.mode), " is ", RatioText(best.speedup()),
      " x sooner than ", ShortName(analysis, analysis.modes.front()),
      InBrackets(*comparison.speedup), ", but its ", analysis.metric.words(), " is ",
      WhyNotAsAccurate(analysis.metric, comparison, AccuracyFinding::kUndecided), ": ",
      AddText(SeedsForAccuracy(*comparison.accuracy, analysis.equivalence_margin)), ".");
}

// Which mode to use; `baseline` has finished with a seed and another mode is there.
std::string AnswerOf(const Analysis& analysis) {
  const ModeFigures& baseline = analysis.modes.front();
  const std::string name = ShortName(analysis, baseline);
  const std::string target = TargetWords(analysis);
  if (!baseline.seconds_to_target) {
    const bool is_easy = baseline.reached == int(baseline.runs.size());
    return absl::StrCat("Undecided: ", name, " ", ReachedText(baseline, target), ": ",
                        is_easy ? "a harder" : "an easier", " --target lets times be compared.");
  }
  const std::vector<Candidate> candidates = CandidatesOf(analysis);
  for (const Candidate& each : candidates) {
    if (each.time == TimeFinding::kSooner && IsAsAccurate(each.accuracy)) {
      return UseText(analysis, each);
    }
  }
  for (const Candidate& each : candidates) {
    if (each.speedup() <= kEqualTimes || each.accuracy == AccuracyFinding::kWorse) continue;
    if (each.time == TimeFinding::kSooner) return MayBeWorse(analysis, each);
    if (each.time != TimeFinding::kEqual) return LooksSooner(analysis, each);
  }
  const bool all_judged =
      std::none_of(candidates.begin(), candidates.end(), [](const Candidate& each) {
        return each.time == TimeFinding::kUndecided || each.time == TimeFinding::kUnknown;
      });
  int seeds = kSeedsForInterval;
  for (const ModeFigures& mode : analysis.modes) {
    if (mode.comparison) seeds = std::min<int>(seeds, mode.comparison->pairs);
  }
  if (seeds < kSeedsForInterval) {
    return absl::StrCat("Undecided: no other mode looks sooner to ", target, " than ", name,
                        ", by ", SeedsText(seeds), " alone: ", AddText(kSeedsForInterval - seeds),
                        ".");
  }
  return absl::StrCat("Use ", name, ": no other mode ", all_judged ? "is" : "looks", " sooner to ",
                      target, " at equal ", analysis.metric.words(), ".");
}

}  // namespace

AccuracyFinding JudgeAccuracy(const Comparison& comparison, double margin) {
  if (!comparison.accuracy || !comparison.accuracy->interval) return AccuracyFinding::kUnknown;
  const Interval& interval = *comparison.accuracy->interval;
  if (interval.low >= -margin && interval.high <= margin) return AccuracyFinding::kEqual;
  const bool less_is_better = comparison.less_is_better;
  if (interval.low > 0) return less_is_better ? AccuracyFinding::kWorse : AccuracyFinding::kBetter;
  if (interval.high < 0) return less_is_better ? AccuracyFinding::kBetter : AccuracyFinding::kWorse;
  return AccuracyFinding::kUndecided;
}

TimeFinding JudgeTime(const Comparison& comparison) {
  if (!comparison.speedup || !comparison.speedup->interval) return TimeFinding::kUnknown;
  const Interval& interval = *comparison.speedup->interval;
  if (interval.low >= 1 / kEqualTimes && interval.high <= kEqualTimes) return TimeFinding::kEqual;
  if (interval.low > 1) return TimeFinding::kSooner;
  if (interval.high < 1) return TimeFinding::kLater;
  return TimeFinding::kUndecided;
}

Verdict MakeVerdict(const Analysis& analysis) {
  Verdict verdict;
  for (const ModeFigures& mode : analysis.modes) verdict.modes.push_back(ModeText(analysis, mode));
  const ModeFigures& baseline = analysis.modes.front();
  const bool has_pairs = std::any_of(
      analysis.modes.begin(), analysis.modes.end(),
      [](const ModeFigures& mode) { return mode.comparison && mode.comparison->pairs >= 2; });
  if (analysis.modes.size() == 1) {
    verdict.overall = "One mode: nothing to compare it with.";
  } else if (!baseline.final_accuracy) {
    verdict.overall = absl::StrCat("No comparison: ", baseline.mode, ", the baseline, failed.");
  } else if (!has_pairs) {
    verdict.overall = absl::StrCat(
        "Figures, but no verdict: no mode finished with two seeds with "
        "which ",
        baseline.mode, " did.");
  } else {
    JudgeAll(analysis, &verdict);
  }
  const bool is_compared = analysis.modes.size() > 1 && baseline.final_accuracy.has_value() &&
                           analysis.target_accuracy.has_value();
  if (is_compared) verdict.answer = AnswerOf(analysis);
  return verdict;
}

}  // namespace strata::compare
