#include "compare/campaign/sample_sweep.h"

#include <initializer_list>

#include "compare/campaign/sweep_plan.h"

namespace strata::compare {
namespace {

constexpr char kHostile[] = "</script><b>\"'&amp;<!--";

proto::Variation Vary(const std::string& field, std::initializer_list<const char*> values) {
  proto::Variation variation;
  variation.set_field(field);
  for (const char* value : values) variation.add_values(value);
  return variation;
}

// 100 steps of 10 samples each.
SweepPlan PlanWith(std::vector<proto::Variation> vary, uint32_t halving) {
  SweepPlan plan;
  plan.vary = std::move(vary);
  for (const GridPoint& point : MakeGrid(plan.vary)) {
    SweepPoint& planned = plan.points.emplace_back(SweepPoint{point, {point.name, {}}, 100});
    planned.plan.job.set_ranks(1);
    planned.plan.job.mutable_data()->set_batch_per_rank(10);
  }
  plan.rungs = PlanRungs(plan.points.size(), halving);
  return plan;
}

RungRuns RungWith(std::vector<size_t> points, std::initializer_list<double> accuracies) {
  RungRuns rung;
  rung.points = std::move(points);
  for (const double accuracy : accuracies) {
    rung.records.push_back(MakeRecord({.accuracy = accuracy, .samples = 1000, .trained_s = 12.5}));
  }
  return rung;
}

}  // namespace

SweepReport SampleSweep() {
  SweepReport report;
  report.title = kHostile;
  report.cluster = "2 nodes";
  report.plan = PlanWith(
      {Vary("schedule.base_lr", {"0.01", "0.03", "0.1"}), Vary("push.codec", {"FP16", kHostile})},
      0);
  report.result =
      RankResults(report.plan, {RungWith({0, 1, 2, 3, 4, 5}, {0.7, 0.72, 0.8, 0.83, 0.6, -1})});
  return report;
}

SweepReport HalvedSweep() {
  SweepReport report;
  report.title = "halved";
  report.cluster = "2 nodes";
  report.halving = 2;
  report.plan = PlanWith({Vary("optimizer.momentum_sgd.momentum", {"0", "0.5", "0.8", "0.9"})}, 2);
  report.result = RankResults(report.plan, {RungWith({0, 1, 2, 3}, {0.2, 0.3, 0.4, 0.5}),
                                            RungWith({2, 3}, {0.6, 0.7}), RungWith({3}, {0.8})});
  return report;
}

}  // namespace strata::compare
