#include "compare/analysis.h"

#include <cmath>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace strata::compare {

namespace {

// Accuracy rises in a line to `final` within 100 samples, 10 updates and `trained_s`; five
// measurements.
proto::RunRecord Record(const std::string& mode, uint64_t seed, double final, double trained_s) {
  proto::RunRecord run;
  run.set_mode(mode);
  run.set_seed(seed);
  run.set_steps(10);
  run.set_samples(100);
  run.set_updates(10);
  run.set_trained_s(trained_s);
  run.set_bytes_pushed(700);
  run.set_bytes_answered(300);
  run.set_waiting_share(0.25);
  for (int i = 1; i <= 5; ++i) {
    proto::Measurement* measurement = run.add_measurements();
    measurement->set_samples(20 * i);
    measurement->set_updates(2 * i);
    measurement->set_trained_s(trained_s * i / 5);
    measurement->set_accuracy(final * i / 5);
  }
  return run;
}

proto::RunRecord Failed(const std::string& mode, uint64_t seed) {
  proto::RunRecord run = Record(mode, seed, 0.9, 10);
  run.set_failure("loss is NaN");
  return run;
}

Analysis Of(const std::vector<proto::RunRecord>& runs, AnalysisOptions options = {}) {
  if (options.modes.empty()) options.modes = {"sync", "async"};
  absl::StatusOr<Analysis> analysis = Analyze(runs, options);
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  return *analysis;
}

std::string Refusal(const std::vector<proto::RunRecord>& runs, const AnalysisOptions& options) {
  const absl::StatusOr<Analysis> analysis = Analyze(runs, options);
  EXPECT_EQ(analysis.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(analysis.status().message());
}

TEST(Analysis, FinalAccuracyIsThatOfTheLastMeasurement) {
  const Analysis analysis =
      Of({Record("async", 1, 0.5, 8), Record("sync", 2, 0.90, 10), Record("sync", 1, 0.88, 10)});
  const ModeFigures& sync = analysis.modes[0];
  EXPECT_EQ(sync.mode, "sync");
  EXPECT_EQ(sync.runs[0].seed, 1u);
  EXPECT_DOUBLE_EQ(sync.final_accuracy->mean, 0.89);
  EXPECT_NEAR(sync.final_accuracy->interval->high, 0.89 + 0.127062, 1e-6);
  EXPECT_EQ(sync.final_accuracy->count, 2);
  EXPECT_DOUBLE_EQ(sync.trained_s->mean, 10);
  EXPECT_DOUBLE_EQ(sync.bytes_per_step->mean, 100);
  EXPECT_DOUBLE_EQ(sync.waiting_share->mean, 0.25);
  EXPECT_FALSE(analysis.modes[1].final_accuracy->interval);
}

TEST(Analysis, FailedRunsAreCountedAndInNoMean) {
  const Analysis analysis =
      Of({Record("sync", 1, 0.9, 10), Record("async", 1, 0.8, 10), Failed("async", 2)});
  const ModeFigures& async = analysis.modes[1];
  EXPECT_EQ(async.failed, 1);
  EXPECT_EQ(async.runs.size(), 2u);
  EXPECT_EQ(async.final_accuracy->count, 1);
  EXPECT_DOUBLE_EQ(async.final_accuracy->mean, 0.8);
  EXPECT_EQ(async.reached, 1);
  EXPECT_FALSE(async.seconds_to_target);
}

TEST(Analysis, TargetIsAPointBelowTheLowestMeanRoundedDown) {
  // 0.8829 - 0.01 = 0.8729.
  const Analysis analysis = Of({Record("sync", 1, 0.90, 10), Record("async", 1, 0.8829, 10)});
  EXPECT_DOUBLE_EQ(*analysis.target_accuracy, 0.872);
  EXPECT_EQ(analysis.target_mode, "async");
  EXPECT_FALSE(analysis.target_is_given);
  EXPECT_DOUBLE_EQ(
      *Of({Record("sync", 1, 0.90, 10), Record("async", 1, 0.881, 10)}).target_accuracy, 0.871);
}

// A perplexity, which falls from 20 to `final`.
proto::RunRecord Falling(const std::string& mode, uint64_t seed, double final, double trained_s) {
  proto::RunRecord run = Record(mode, seed, 0, trained_s);
  for (int i = 0; i < 5; ++i) {
    run.mutable_measurements(i)->set_accuracy(20 - (20 - final) * (i + 1) / 5);
  }
  return run;
}

TEST(Analysis, WhatIsToBeSmallIsReachedFromAboveAndItsMarginIsAShare) {
  AnalysisOptions options;
  options.metric = {.name = "perplexity", .less_is_better = true};
  const Analysis analysis = Of({Falling("sync", 1, 10, 10), Falling("sync", 2, 10, 10),
                                Falling("async", 1, 9.5, 5), Falling("async", 2, 9.7, 5)},
                               options);
  EXPECT_DOUBLE_EQ(*analysis.target_accuracy, 10 * 1.01);
  EXPECT_EQ(analysis.target_mode, "sync");
  EXPECT_DOUBLE_EQ(analysis.equivalence_margin, 0.05);
  // 20 - t = 10.1.
  EXPECT_NEAR(analysis.modes[0].seconds_to_target->mean, 9.9, 1e-9);
  EXPECT_LT(analysis.modes[1].seconds_to_target->mean, 5);
  const Comparison& comparison = *analysis.modes[1].comparison;
  EXPECT_TRUE(comparison.less_is_better);
  EXPECT_NEAR(comparison.accuracy->mean, -0.4, 1e-9);
  options.target_accuracy = 100;
  EXPECT_EQ(*Of({Falling("sync", 1, 10, 10), Falling("async", 1, 9, 10)}, options).target_accuracy,
            100);
}

TEST(Analysis, AModeThatHasNotLearntDoesNotLowerTheTarget) {
  const Analysis analysis = Of({Record("sync", 1, 0.9, 10), Record("async", 1, 0.1, 10)});
  EXPECT_DOUBLE_EQ(*analysis.target_accuracy, 0.89);
  EXPECT_EQ(analysis.target_mode, "sync");
  EXPECT_EQ(analysis.modes[1].reached, 0);
}

TEST(Analysis, TimeToTargetIsInterpolatedPerSeedAndGeometricOverThem) {
  AnalysisOptions options;
  options.target_accuracy = 0.45;
  // Half of the final 0.9: after half of the time.
  const Analysis analysis = Of({Record("sync", 1, 0.9, 8), Record("sync", 2, 0.9, 32),
                                Record("async", 1, 0.9, 4), Record("async", 2, 0.9, 16)},
                               options);
  EXPECT_TRUE(analysis.target_is_given);
  const ModeFigures& sync = analysis.modes[0];
  EXPECT_DOUBLE_EQ(*sync.runs[0].seconds_to_target, 4);
  EXPECT_DOUBLE_EQ(*sync.runs[0].samples_to_target, 50);
  EXPECT_NEAR(sync.seconds_to_target->mean, 8, 1e-9);
  const Comparison& comparison = *analysis.modes[1].comparison;
  EXPECT_EQ(comparison.pairs, 2);
  EXPECT_NEAR(comparison.speedup->mean, 2, 1e-9);
  EXPECT_NEAR(comparison.speedup->interval->low, 2, 1e-9);  // the same in both pairs
  EXPECT_FALSE(sync.comparison);
}

TEST(Analysis, TimeIsOfTheSmoothedCurve) {
  AnalysisOptions options;
  options.target_accuracy = 0.5;
  proto::RunRecord run = Record("sync", 1, 0.9, 10);
  const double unsmoothed[] = {0.1, 0.9, 0.2, 0.6, 0.9};  // smoothed 0.1 0.2 0.6 0.6 0.9
  for (int i = 0; i < 5; ++i) run.mutable_measurements(i)->set_accuracy(unsmoothed[i]);
  const Analysis analysis = Of({run, Record("async", 1, 0.9, 10)}, options);
  EXPECT_DOUBLE_EQ(*analysis.modes[0].runs[0].seconds_to_target, 5.5);
}

TEST(Analysis, AModeThatMissesTheTargetOnceHasNoMeanTimeAndNoSpeedup) {
  AnalysisOptions options;
  options.target_accuracy = 0.8;
  const Analysis analysis = Of({Record("sync", 1, 0.9, 10), Record("sync", 2, 0.9, 10),
                                Record("async", 1, 0.9, 5), Record("async", 2, 0.7, 5)},
                               options);
  EXPECT_EQ(analysis.modes[0].reached, 2);
  EXPECT_EQ(analysis.modes[1].reached, 1);
  EXPECT_FALSE(analysis.modes[1].seconds_to_target);
  EXPECT_FALSE(analysis.modes[1].samples_to_target);
  EXPECT_FALSE(analysis.modes[1].comparison->speedup);
}

TEST(Analysis, ComparisonsArePairedBySeed) {
  // Unpaired, the seeds' own spread of 0.10 would hide a difference that is always 0.01.
  const Analysis analysis =
      Of({Record("sync", 1, 0.80, 10), Record("sync", 2, 0.90, 10), Record("sync", 3, 0.85, 10),
          Record("async", 3, 0.84, 10), Record("async", 2, 0.89, 10), Record("async", 1, 0.79, 10),
          Record("async", 4, 0.10, 10)});
  const Comparison& comparison = *analysis.modes[1].comparison;
  EXPECT_EQ(comparison.pairs, 3);
  EXPECT_NEAR(comparison.accuracy->mean, -0.01, 1e-12);
  EXPECT_NEAR(comparison.accuracy->interval->low, -0.01, 1e-9);
}

TEST(Analysis, PairsNeedBothRuns) {
  const Analysis analysis = Of({Failed("sync", 1), Record("sync", 2, 0.9, 10),
                                Record("async", 1, 0.8, 10), Failed("async", 2)});
  EXPECT_EQ(analysis.modes[1].comparison->pairs, 0);
  EXPECT_FALSE(analysis.modes[1].comparison->accuracy);
}

TEST(Analysis, EqualUpdatesAreTheFewestThatAModeMade) {
  proto::RunRecord many = Record("async", 1, 0.9, 10);
  for (proto::Measurement& m : *many.mutable_measurements()) m.set_updates(4 * m.updates());
  const Analysis analysis = Of({Record("sync", 1, 0.9, 10), many});
  EXPECT_EQ(analysis.equal_updates, 10u);
  EXPECT_DOUBLE_EQ(analysis.modes[0].accuracy_at_equal_updates->mean, 0.9);
  // 8 updates had 0.18, 16 have 0.36.
  EXPECT_DOUBLE_EQ(analysis.modes[1].accuracy_at_equal_updates->mean, 0.225);
  EXPECT_DOUBLE_EQ(analysis.modes[1].comparison->at_equal_updates->mean, 0.225 - 0.9);
}

TEST(Analysis, EqualSamplesAreTheFewestThatAModeUsed) {
  proto::RunRecord more = Record("async", 1, 0.9, 10);
  for (proto::Measurement& m : *more.mutable_measurements()) m.set_samples(2 * m.samples());
  const Analysis analysis = Of({Record("sync", 1, 0.9, 10), more});
  EXPECT_EQ(analysis.equal_samples, 100u);
  EXPECT_DOUBLE_EQ(analysis.modes[1].accuracy_at_equal_samples->mean, 0.45);
  EXPECT_DOUBLE_EQ(analysis.modes[1].final_accuracy->mean, 0.9);
}

TEST(Analysis, WhatWasNotMeasuredYetAtEqualUpdatesHasNoFigure) {
  proto::RunRecord many = Record("async", 1, 0.9, 10);
  for (proto::Measurement& m : *many.mutable_measurements()) m.set_updates(100 * m.updates());
  const Analysis analysis = Of({Record("sync", 1, 0.9, 10), many});
  EXPECT_FALSE(analysis.modes[1].accuracy_at_equal_updates);
  EXPECT_FALSE(analysis.modes[1].comparison->at_equal_updates);
}

TEST(Analysis, StalenessIsSummedAndTheLastBinIsOrMore) {
  proto::RunRecord first = Record("async", 1, 0.9, 10), second = Record("async", 2, 0.9, 10);
  for (const uint64_t pushes : {1, 2, 3, 4}) first.add_staleness(pushes);
  for (const uint64_t pushes : {10, 20}) second.add_staleness(pushes);
  const std::vector<uint64_t> expected = {11, 29};
  EXPECT_EQ(Of({Record("sync", 1, 0.9, 10), first, second}).modes[1].staleness, expected);
  first.set_seed(2);
  second.set_seed(1);
  EXPECT_EQ(Of({Record("sync", 1, 0.9, 10), first, second}).modes[1].staleness, expected);
}

TEST(Analysis, WhereAllFailThereIsNoTarget) {
  const Analysis analysis = Of({Failed("sync", 1), Failed("async", 1)});
  EXPECT_FALSE(analysis.target_accuracy);
  EXPECT_FALSE(analysis.modes[0].final_accuracy);
  EXPECT_EQ(analysis.equal_samples, 0u);
  EXPECT_EQ(analysis.equal_updates, 0u);
}

TEST(Analysis, WhatCannotBeComparedIsNamed) {
  AnalysisOptions options;
  EXPECT_EQ(Refusal({}, options), "no mode to compare");
  options.modes = {"sync", "async"};
  EXPECT_EQ(Refusal({Record("sync", 1, 0.9, 10)}, options), "mode \"async\" has no runs");
  EXPECT_EQ(Refusal({Record("ring", 1, 0.9, 10)}, options),
            "run of \"ring\" with seed 1: not a mode of this comparison");
  EXPECT_EQ(Refusal({Record("sync", 7, 0.9, 10), Record("sync", 7, 0.9, 10)}, options),
            "run of \"sync\" with seed 7: there are two");
  options.equivalence_margin = 0;
  EXPECT_EQ(Refusal({}, options), "equivalence margin 0 points: not above 0 and below 100");
  options.equivalence_margin = NAN;
  Refusal({}, options);
  options.equivalence_margin = 0.005;
  options.target_accuracy = 87.1;
  EXPECT_EQ(Refusal({}, options), "target accuracy 87.1: not above 0 and at most 1");
}

proto::RunRecord MakeRun() {
  proto::RunRecord run;
  run.set_steps(10);
  proto::Measurement* first = run.add_measurements();
  first->set_step(5);
  first->set_accuracy(0.5);
  (*first->mutable_values())["perplexity"] = 20;
  run.add_measurements()->set_step(8);
  (*run.mutable_measurements(1)->mutable_values())["perplexity"] = 12.5;
  return run;
}

TEST(Metric, ARunHasTheMeasurementsThatHaveIt) {
  const proto::RunRecord accuracy = ByMetric({}, MakeRun());
  ASSERT_EQ(accuracy.measurements_size(), 1);
  EXPECT_EQ(accuracy.measurements(0).accuracy(), 0.5);
  const proto::RunRecord perplexity = ByMetric({.name = "perplexity"}, MakeRun());
  ASSERT_EQ(perplexity.measurements_size(), 2);
  EXPECT_EQ(perplexity.measurements(0).accuracy(), 20);
  EXPECT_EQ(perplexity.measurements(1).accuracy(), 12.5);
  EXPECT_EQ(perplexity.failure(), "");
}

TEST(Metric, ARunWithoutItHasFailedAndSaysWhatItHas) {
  EXPECT_EQ(
      ByMetric({.name = "bleu"}, MakeRun()).failure(),
      "no bleu was reported, but perplexity, test_accuracy: --metric NAME takes one of those");
  proto::RunRecord none = MakeRun();
  none.clear_measurements();
  EXPECT_EQ(ByMetric({}, none).failure(),
            "no test_accuracy was reported, nor any other figure of a test");
  none.set_failure("rank 1 was killed");
  EXPECT_EQ(ByMetric({}, none).failure(), "rank 1 was killed");
}

TEST(Metric, TheLossOfTrainingStepsJudgesNoRun) {
  EXPECT_EQ(ByMetric({.name = "loss"}, MakeRun()).failure(),
            "loss is that of training steps, by which no run is judged; reported were perplexity, "
            "test_accuracy: --metric NAME takes one of those");
  proto::RunRecord none = MakeRun();
  none.clear_measurements();
  EXPECT_EQ(ByMetric({.name = "loss"}, none).failure(),
            "loss is that of training steps, by which no run is judged; no figure of a test was "
            "reported, such as test_loss");
  proto::RunRecord own = MakeRun();
  (*own.mutable_measurements(1)->mutable_values())["loss"] = 2;
  EXPECT_EQ(ByMetric({.name = "loss"}, own).failure(), "") << "a program may call a figure so";
}

TEST(Metric, AModelOfTheZooReportsThoseOfItsTestDataAlone) {
  proto::Job job;
  job.mutable_model()->set_zoo("mlp");
  EXPECT_EQ(CheckCanHave(job, {}), absl::OkStatus());
  EXPECT_EQ(CheckCanHave(job, {.name = "test_loss"}), absl::OkStatus());
  EXPECT_EQ(CheckCanHave(job, {.name = "loss"}),
            absl::InvalidArgumentError("metric loss: a model of the zoo reports test_accuracy and "
                                       "test_loss alone"));
  proto::Job program;
  program.mutable_program()->set_path("/bin/true");
  EXPECT_EQ(CheckCanHave(program, {.name = "loss"}), absl::OkStatus());
}

TEST(Metric, TheGoalIsGivenOrFollowsFromTheName) {
  EXPECT_FALSE(MakeMetric("test_accuracy", "")->less_is_better);
  EXPECT_TRUE(MakeMetric("test_loss", "")->less_is_better);
  EXPECT_FALSE(MakeMetric("bleu", "")->less_is_better);
  EXPECT_TRUE(MakeMetric("perplexity", "min")->less_is_better);
  EXPECT_EQ(MakeMetric("bleu", "up").status(), absl::InvalidArgumentError("goal up: min or max"));
  EXPECT_EQ(MakeMetric("test_accuracy", "min").status(),
            absl::InvalidArgumentError("goal min: test_accuracy is to be large"));
}

TEST(StudentQuantile, IsThatOfPrintedTables) {
  EXPECT_NEAR(StudentQuantile(1), 12.7062, 5e-5);
  EXPECT_NEAR(StudentQuantile(2), 4.3027, 5e-5);
  EXPECT_NEAR(StudentQuantile(4), 2.7764, 5e-5);
  EXPECT_NEAR(StudentQuantile(30), 2.0423, 5e-5);
}

TEST(Mean, OneValueHasNoInterval) {
  const Estimate one = Mean({0.88});
  EXPECT_EQ(one.mean, 0.88);
  EXPECT_EQ(one.count, 1);
  EXPECT_FALSE(one.interval);
}

TEST(Mean, IntervalIsStudents) {
  // s = 1: 4.30265 / sqrt(3) on either side.
  const Estimate three = Mean({1, 2, 3});
  EXPECT_EQ(three.count, 3);
  EXPECT_DOUBLE_EQ(three.mean, 2);
  EXPECT_NEAR(three.interval->low, 2 - 2.484138, 1e-6);
  EXPECT_NEAR(three.interval->high, 2 + 2.484138, 1e-6);
  // s = 0.02 / sqrt(2): 12.70620 x 0.01.
  const Estimate two = Mean({0.88, 0.90});
  EXPECT_NEAR(two.interval->high - two.mean, 0.1270620, 1e-6);
}

TEST(Mean, EqualValuesHaveAnIntervalOfNoWidth) {
  const Estimate estimate = Mean({0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(estimate.interval->low, 0.5);
  EXPECT_EQ(estimate.interval->high, 0.5);
}

TEST(GeometricMean, IsOfLogarithms) {
  // Logarithms 0 and 1.386294: s = 0.980258, 12.70620 x 0.980258 / sqrt(2) = 8.807268.
  const Estimate estimate = GeometricMean({1, 4});
  EXPECT_DOUBLE_EQ(estimate.mean, 2);
  EXPECT_NEAR(std::log(estimate.interval->high / 2), 8.807268, 1e-4);
  EXPECT_NEAR(estimate.interval->low * estimate.interval->high, 4, 1e-9);
}

TEST(GeometricMean, OfRatiosIsTheRatioOfThem) {
  const double over = GeometricMean({12, 15, 11}).mean / GeometricMean({4, 7, 6}).mean;
  EXPECT_NEAR(GeometricMean({12.0 / 4, 15.0 / 7, 11.0 / 6}).mean, over, 1e-12);
}

}  // namespace

}  // namespace strata::compare
