#include "compare/verdict.h"

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

std::optional<Estimate> About(double mean, double low, double high) {
  return Estimate{mean, 3, Interval{low, high}};
}

// Three runs that all finished and reached the target.
ModeFigures Mode(const std::string& name) {
  ModeFigures mode;
  mode.mode = name;
  mode.runs.resize(3);
  for (size_t i = 0; i < mode.runs.size(); ++i) mode.runs[i].seed = i + 1;
  mode.reached = 3;
  mode.final_accuracy = About(0.88, 0.878, 0.882);
  mode.seconds_to_target = About(12.3, 11, 13);
  return mode;
}

ModeFigures Against(const std::string& name, std::optional<Estimate> accuracy,
                    std::optional<Estimate> speedup) {
  ModeFigures mode = Mode(name);
  mode.comparison = Comparison{3, accuracy, std::nullopt, speedup};
  return mode;
}

Analysis VerdictOf(std::vector<ModeFigures> modes) {
  Analysis analysis;
  analysis.modes = {Mode("sync")};
  for (ModeFigures& mode : modes) analysis.modes.push_back(mode);
  analysis.equivalence_margin = 0.005;
  analysis.target_accuracy = 0.871;
  return analysis;
}

const std::optional<Estimate> kEqual = About(-0.0012, -0.0031, 0.0007);
const std::optional<Estimate> kBetter = About(0.012, 0.006, 0.018);
const std::optional<Estimate> kWorse = About(-0.051, -0.06, -0.042);
const std::optional<Estimate> kUnclear = About(0.004, -0.008, 0.016);
const std::optional<Estimate> kSooner = About(1.82, 1.61, 2.05);
const std::optional<Estimate> kLater = About(0.5, 0.4, 0.8);
const std::optional<Estimate> kNeither = About(1.05, 0.9, 1.2);
const std::optional<Estimate> kAsSoon = About(1.01, 1.002, 1.018);

std::string Second(const ModeFigures& mode) { return MakeVerdict(VerdictOf({mode})).modes[1]; }
// The further sentence follows the first.
std::string Overall(const Analysis& analysis) {
  const Verdict verdict = MakeVerdict(analysis);
  return verdict.further.empty() ? verdict.overall : verdict.overall + " " + verdict.further;
}
std::string Overall(const std::vector<ModeFigures>& modes) { return Overall(VerdictOf(modes)); }

TEST(AccuracyFinding, FollowsFromWhereTheIntervalLies) {
  const auto finding = [](double low, double high) {
    return JudgeAccuracy(Comparison{3, About(0, low, high), {}, {}}, 0.005);
  };
  EXPECT_EQ(finding(-0.005, 0.005), AccuracyFinding::kEqual);
  EXPECT_EQ(finding(0.001, 0.004), AccuracyFinding::kEqual);  // excludes 0, and does not matter
  EXPECT_EQ(finding(0, 0), AccuracyFinding::kEqual);
  EXPECT_EQ(finding(0.001, 0.0051), AccuracyFinding::kBetter);
  EXPECT_EQ(finding(-0.0051, -0.001), AccuracyFinding::kWorse);
  EXPECT_EQ(finding(0, 0.0051), AccuracyFinding::kUndecided);
  EXPECT_EQ(finding(-0.0051, 0), AccuracyFinding::kUndecided);
  EXPECT_EQ(JudgeAccuracy(Comparison{}, 0.005), AccuracyFinding::kUnknown);
  EXPECT_EQ(JudgeAccuracy(Comparison{1, Estimate{0.2, 1, {}}, {}, {}}, 0.005),
            AccuracyFinding::kUnknown);
}

TEST(TimeFinding, NeedsAnIntervalThatExcludesOne) {
  const auto finding = [](double low, double high) {
    return JudgeTime(Comparison{3, {}, {}, About(1, low, high)});
  };
  EXPECT_EQ(finding(1.01, 2), TimeFinding::kSooner);
  EXPECT_EQ(finding(0.5, 0.99), TimeFinding::kLater);
  EXPECT_EQ(finding(1.01, 1.05), TimeFinding::kEqual);  // excludes 1, and does not matter
  EXPECT_EQ(finding(1.01, 1.0501), TimeFinding::kSooner);
  EXPECT_EQ(finding(1 / 1.05, 0.99), TimeFinding::kEqual);
  EXPECT_EQ(finding(0.952, 0.99), TimeFinding::kLater);
  EXPECT_EQ(finding(1, 1), TimeFinding::kEqual);
  EXPECT_EQ(finding(1, 2), TimeFinding::kUndecided);
  EXPECT_EQ(finding(0.5, 1), TimeFinding::kUndecided);
  EXPECT_EQ(JudgeTime(Comparison{}), TimeFinding::kUnknown);
  EXPECT_EQ(JudgeTime(Comparison{1, {}, {}, Estimate{3, 1, {}}}), TimeFinding::kUnknown);
}

TEST(ModeVerdict, TellsTheBaselinesOwnFigures) {
  EXPECT_EQ(MakeVerdict(VerdictOf({})).modes[0],
            "sync: accuracy 88.00 % (87.80 to 88.20); reaches 87.1 % after 12.3 s.");
}

TEST(ModeVerdict, HasAWordForEachFindingOfAccuracy) {
  EXPECT_EQ(Second(Against("async", kEqual, kSooner)),
            "async: accuracy 88.00 %, equal to sync's within 0.5 points (-0.12, interval -0.31 to "
            "+0.07); reaches 87.1 % 1.82 x sooner (1.61 to 2.05).");
  EXPECT_EQ(Second(Against("async", kBetter, kSooner)),
            "async: accuracy 88.00 %, better than sync's by 1.20 points (0.60 to 1.80); reaches "
            "87.1 % 1.82 x sooner (1.61 to 2.05).");
  EXPECT_EQ(Second(Against("async", kWorse, kSooner)),
            "async: accuracy 88.00 %, worse than sync's by 5.10 points (4.20 to 6.00); reaches "
            "87.1 % 1.82 x sooner (1.61 to 2.05).");
  EXPECT_EQ(Second(Against("async", kUnclear, kSooner)),
            "async: accuracy 88.00 %, no significant difference from sync's (+0.40 points, "
            "interval -0.80 to +1.60); reaches 87.1 % 1.82 x sooner (1.61 to 2.05).");
}

TEST(ModeVerdict, HasAWordForEachFindingOfTime) {
  EXPECT_EQ(Second(Against("async", kEqual, kLater)),
            "async: accuracy 88.00 %, equal to sync's within 0.5 points (-0.12, interval -0.31 to "
            "+0.07); reaches 87.1 % 2.00 x later (1.25 to 2.50).");
  EXPECT_EQ(Second(Against("async", kEqual, kNeither)),
            "async: accuracy 88.00 %, equal to sync's within 0.5 points (-0.12, interval -0.31 to "
            "+0.07); no significant difference in time to 87.1 % (ratio 1.05, interval 0.90 to "
            "1.20).");
  EXPECT_EQ(Second(Against("async", kEqual, kAsSoon)),
            "async: accuracy 88.00 %, equal to sync's within 0.5 points (-0.12, interval -0.31 to "
            "+0.07); reaches 87.1 % as soon within 5 % (ratio 1.01, interval 1.00 to 1.02).");
}

TEST(ModeVerdict, WithOnePairOfRunsThereAreFiguresOnly) {
  EXPECT_EQ(Second(Against("async", Estimate{-0.0012, 1, {}}, Estimate{1.82, 1, {}})),
            "async: accuracy 88.00 %, -0.12 points from sync's (one pair of runs: no interval); "
            "reaches 87.1 % 1.82 x sooner (one pair of runs: no interval).");
}

TEST(ModeVerdict, AModeThatMissesTheTargetSaysHowOften) {
  ModeFigures mode = Against("async", kWorse, std::nullopt);
  mode.seconds_to_target.reset();
  mode.reached = 2;
  EXPECT_EQ(Second(mode),
            "async: accuracy 88.00 %, worse than sync's by 5.10 points (4.20 to 6.00); reaches "
            "87.1 % in 2 of 3 runs only.");
  mode.reached = 0;
  EXPECT_EQ(Second(mode),
            "async: accuracy 88.00 %, worse than sync's by 5.10 points (4.20 to 6.00); does not "
            "reach 87.1 %.");
}

TEST(ModeVerdict, FailedRunsAreTold) {
  ModeFigures mode = Against("async", std::nullopt, std::nullopt);
  mode.seconds_to_target.reset();
  mode.runs[1].failure = "loss is NaN at step 310";
  mode.failed = 1;
  mode.reached = 2;
  EXPECT_EQ(Second(mode),
            "async: accuracy 88.00 %, no seed with which sync finished, too; reaches 87.1 % in 2 "
            "of 3 runs only. But 1 of 3 runs failed (seed 2: loss is NaN at step 310) and is in no "
            "mean.");
  mode.final_accuracy.reset();
  mode.failed = 3;
  EXPECT_EQ(Second(mode), "async: all 3 runs failed (seed 2: loss is NaN at step 310).");
}

std::string Answer(const std::vector<ModeFigures>& modes) {
  return MakeVerdict(VerdictOf(modes)).answer;
}

TEST(Answer, IsTheSoonestModeThatIsAsAccurate) {
  EXPECT_EQ(Answer({Against("async", kEqual, kSooner), Against("easgd", kWorse, About(9, 8, 10)),
                    Against("diloco(16)+push.codec=FP16", kBetter, About(4.2, 3.9, 4.5))}),
            "Use diloco(16): it reaches 87.1 % 4.20 x sooner than sync (3.90 to 4.50), with better "
            "accuracy by 1.20 points.");
  EXPECT_EQ(Answer({Against("async+a=1", kEqual, kSooner), Against("async+a=2", kEqual, kLater)}),
            "Use async+a=1: it reaches 87.1 % 1.82 x sooner than sync (1.61 to 2.05), with equal "
            "accuracy.");
}

TEST(Answer, SaysHowManySeedsWouldDecide) {
  // Half of ln(4.3 / 0.8) is 0.841 with three seeds, and likely 0.539 with four: below ln 1.8.
  EXPECT_EQ(Answer({Against("quorum(3)", kEqual, About(1.8, 0.8, 4.3))}),
            "Undecided: quorum(3) looks 1.80 x sooner than sync (0.80 to 4.30): add 1 seed.");
  EXPECT_EQ(Answer({Against("quorum(3)", kEqual, About(1.35, 0.65, 2.8))}),
            "Undecided: quorum(3) looks 1.35 x sooner than sync (0.65 to 2.80): add 4 seeds.");
  EXPECT_EQ(Answer({Against("quorum(3)", kEqual, About(1.06, 0.1, 11))}),
            "Undecided: quorum(3) looks 1.06 x sooner than sync (0.10 to 11.0): add 20 seeds or "
            "more.");
  // 0.012 points of half a width become 0.0090 with four seeds and 0.0060 with six; the mean is
  // 0.004, and 0.001 are left to the margin.
  EXPECT_EQ(Answer({Against("async", kUnclear, kSooner)}),
            "Undecided: async is 1.82 x sooner than sync (1.61 to 2.05), but its accuracy is "
            "undecided, -0.80 to +1.60 points: add 6 seeds.");
}

TEST(Answer, IsTheBaselineWhereNothingLooksSooner) {
  EXPECT_EQ(Answer({Against("ring", kEqual, kLater), Against("async", kWorse, kSooner)}),
            "Use sync: no other mode is sooner to 87.1 % at equal accuracy.");
  EXPECT_EQ(Answer({Against("ring", kEqual, kNeither)}),
            "Use sync: no other mode looks sooner to 87.1 % at equal accuracy.");
}

TEST(Answer, WithOneOrTwoSeedsSaysSoInPlaceOfAnInterval) {
  ModeFigures mode = Against("async", Estimate{-0.0012, 1, {}}, Estimate{1.82, 1, {}});
  mode.comparison->pairs = 1;
  EXPECT_EQ(Answer({mode}),
            "Undecided: async looks 1.82 x sooner than sync (one pair of runs: no interval): add 2 "
            "seeds.");
  mode.comparison = Comparison{2, Estimate{0.003, 2, Interval{-1.87, 1.88}}, std::nullopt,
                               Estimate{0.9, 2, Interval{0.01, 80}}};
  EXPECT_EQ(Answer({mode}),
            "Undecided: no other mode looks sooner to 87.1 % than sync, by 2 seeds alone: add 1 "
            "seed.");
  EXPECT_EQ(
      Second(mode),
      "async: accuracy 88.00 %, no significant difference from sync's (+0.30 points, 2 seeds: "
      "too few for an interval); no significant difference in time to 87.1 % (ratio 0.90, 2 "
      "seeds: too few for an interval).");
}

TEST(Answer, AsksForAnotherTargetWhereTheBaselineHasNoTime) {
  Analysis analysis = VerdictOf({Against("async", kEqual, std::nullopt)});
  analysis.modes[0].seconds_to_target.reset();
  EXPECT_EQ(MakeVerdict(analysis).answer,
            "Undecided: sync reaches 87.1 % from the first: a harder --target lets times be "
            "compared.");
  analysis.modes[0].reached = 1;
  EXPECT_EQ(MakeVerdict(analysis).answer,
            "Undecided: sync reaches 87.1 % in 1 of 3 runs only: an easier --target lets times be "
            "compared.");
  EXPECT_EQ(MakeVerdict(VerdictOf({})).answer, "");
}

TEST(OverallVerdict, NamesWhatIsSoonerAndAsAccurateTheLargestRatioFirst) {
  EXPECT_EQ(Overall({Against("async", kEqual, kSooner),
                     Against("diloco(16)", kBetter, About(4.2, 3.9, 4.5)),
                     Against("ring", kEqual, kNeither)}),
            "Sooner to 87.1 % than sync, and as accurate: diloco(16) 4.20 x, async 1.82 x.");
}

TEST(OverallVerdict, WhatIsSoonerButNotAsAccurateIsNotPraised) {
  EXPECT_EQ(Overall({Against("async", kWorse, kSooner), Against("dc", kUnclear, kSooner)}),
            "No mode was shown to be sooner to 87.1 % than sync at equal accuracy. Sooner, but not "
            "shown to be as accurate: async 1.82 x (accuracy worse by 5.10 points), dc 1.82 x "
            "(accuracy undecided, -0.80 to +1.60 points).");
}

TEST(OverallVerdict, TellsBothWhereThereAreBoth) {
  EXPECT_EQ(Overall({Against("async", kWorse, kSooner), Against("ssp(3)", kEqual, kSooner)}),
            "Sooner to 87.1 % than sync, and as accurate: ssp(3) 1.82 x. Sooner, but not shown to "
            "be as accurate: async 1.82 x (accuracy worse by 5.10 points).");
}

TEST(OverallVerdict, WhereNothingIsSoonerItTellsAccuracy) {
  const std::string none = "No mode was shown to be sooner to 87.1 % than sync at equal accuracy.";
  EXPECT_EQ(Overall({Against("async", kWorse, kLater)}), none);
  EXPECT_EQ(Overall({Against("ring", kEqual, kNeither), Against("async", kWorse, kLater)}),
            none + " Equally accurate within 0.5 points: ring.");
  EXPECT_EQ(Overall({Against("ring", kEqual, kNeither), Against("async", kBetter, kLater)}),
            none + " More accurate: async by 1.20 points.");
}

TEST(OverallVerdict, TimesAreNotComparedWhereTheBaselineMissesTheTarget) {
  Analysis analysis = VerdictOf({Against("async", kEqual, std::nullopt)});
  analysis.modes[0].reached = 1;
  analysis.modes[0].seconds_to_target.reset();
  EXPECT_EQ(Overall(analysis),
            "sync reaches 87.1 % in 1 of 3 runs: times to it are not compared. Equally accurate "
            "within 0.5 points: async.");
  EXPECT_EQ(MakeVerdict(analysis).modes[1],
            "async: accuracy 88.00 %, equal to sync's within 0.5 points (-0.12, interval -0.31 to "
            "+0.07); reaches 87.1 % after 12.3 s, sync in 1 of 3 runs.");
}

TEST(OverallVerdict, WithoutTwoPairsThereIsNone) {
  ModeFigures mode = Against("async", Estimate{-0.0012, 1, {}}, Estimate{1.82, 1, {}});
  mode.comparison->pairs = 1;
  EXPECT_EQ(Overall({mode}),
            "Figures, but no verdict: no mode finished with two seeds with which sync did.");
}

TEST(OverallVerdict, NeedsABaselineAndAnotherMode) {
  EXPECT_EQ(Overall(VerdictOf({})), "One mode: nothing to compare it with.");
  Analysis analysis = VerdictOf({Against("async", std::nullopt, std::nullopt)});
  analysis.modes[0].final_accuracy.reset();
  analysis.modes[0].failed = 3;
  analysis.modes[0].runs[0].failure = "loss is NaN";
  EXPECT_EQ(MakeVerdict(analysis).overall, "No comparison: sync, the baseline, failed.");
  EXPECT_EQ(MakeVerdict(analysis).modes[0], "sync: all 3 runs failed (seed 1: loss is NaN).");
}

TEST(Verdict, WhatIsToBeSmallIsBetterBelow) {
  const auto judge = [](double low, double high) {
    Comparison comparison{3, About(0, low, high), {}, {}};
    comparison.less_is_better = true;
    return JudgeAccuracy(comparison, 0.005);
  };
  EXPECT_EQ(judge(-0.4, -0.1), AccuracyFinding::kBetter);
  EXPECT_EQ(judge(0.1, 0.4), AccuracyFinding::kWorse);
  EXPECT_EQ(judge(-0.001, 0.001), AccuracyFinding::kEqual);
}

}  // namespace
}  // namespace strata::compare
