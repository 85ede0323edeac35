#include "compare/statistics/metric.h"

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

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

TEST(Metric, TheGoalIsGivenOrFollowsFromTheName) {
  EXPECT_FALSE(MakeMetric("test_accuracy", "")->less_is_better);
  EXPECT_TRUE(MakeMetric("test_loss", "")->less_is_better);
  EXPECT_FALSE(MakeMetric("bleu", "")->less_is_better);
  EXPECT_TRUE(MakeMetric("perplexity", "min")->less_is_better);
  EXPECT_EQ(MakeMetric("bleu", "up").status(), absl::InvalidArgumentError("goal up: min or max"));
  EXPECT_EQ(MakeMetric("test_accuracy", "min").status(),
            absl::InvalidArgumentError("goal min: test_accuracy is to be large"));
}

}  // namespace
}  // namespace strata::compare
