#ifndef STRATA_COMPARE_VERDICT_H_
#define STRATA_COMPARE_VERDICT_H_

#include <string>
#include <vector>

#include "compare/analysis.h"

namespace strata::compare {

// The finding that the figures support, by the rule in docs/reports.md.
enum class AccuracyFinding {
  kEqual,      // the interval lies within the margin
  kBetter,     // it lies above 0, or below where less is better
  kWorse,      // it lies on the other side
  kUndecided,  // neither
  kUnknown,    // fewer than two pairs of runs: figures only
};
// Times whose ratio is from 1 / kEqualTimes to kEqualTimes are called equal.
inline constexpr double kEqualTimes = 1.05;
enum class TimeFinding { kEqual, kSooner, kLater, kUndecided, kUnknown };

AccuracyFinding JudgeAccuracy(const Comparison& comparison, double margin);
TimeFinding JudgeTime(const Comparison& comparison);

struct Verdict {
  // One sentence: which mode to use, or that this is undecided and what would decide it. Empty if
  // nothing is compared; `overall` then says why.
  std::string answer;
  std::string overall;             // what the figures support, a sentence
  std::string further;             // what else is needed for a judgement, a sentence; may be empty
  std::vector<std::string> modes;  // as in the analysis; one or two sentences each
};

Verdict MakeVerdict(const Analysis& analysis);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VERDICT_H_
