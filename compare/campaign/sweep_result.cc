#include "compare/campaign/sweep_result.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compare/curve.h"

namespace strata::compare {
namespace {

PointRun RunOf(const proto::RunRecord& record) {
  PointRun run;
  run.seed = record.seed();
  run.resumed_step = record.resumed_step();
  run.began_anew = record.began_anew();
  run.failure = RunFailure(record);
  if (!run.failure.empty()) return run;
  run.accuracy = record.measurements().rbegin()->accuracy();
  run.trained_s = record.trained_s();
  return run;
}

// Returns the result of the point at that place in the rung.
PointResult PointIn(const RungRuns& rung, size_t place) {
  PointResult result;
  result.point = rung.points[place];
  std::vector<double> accuracies, times;
  for (size_t i = place; i < rung.records.size(); i += rung.points.size()) {
    result.runs.push_back(RunOf(rung.records[i]));
    if (!result.runs.back().failure.empty()) continue;
    accuracies.push_back(result.runs.back().accuracy);
    times.push_back(result.runs.back().trained_s);
  }
  if (accuracies.empty() || accuracies.size() < result.runs.size()) return result;
  result.accuracy = Mean(accuracies);
  result.trained_s = Mean(times);
  return result;
}

bool IsBefore(const PointResult& a, const PointResult& b, bool less_is_better) {
  if (a.rung != b.rung) return a.rung > b.rung;
  const auto mean = [less_is_better](const PointResult& point) {
    const double sign = less_is_better ? -1 : 1;
    return point.accuracy ? std::optional(sign * point.accuracy->mean) : std::nullopt;
  };
  return mean(a) > mean(b);
}

// Adds the samples and steps of a rung's runs, and those that they took over.
void AddWork(const SweepPlan& plan, size_t rung, const RungRuns& runs, SweepResult* result) {
  result->samples += SamplesOfRung(plan, plan.rungs[rung], runs.points);
  if (rung == 0) return;
  for (size_t i = 0; i < runs.records.size(); ++i) {
    const size_t point = runs.points[i % runs.points.size()];
    const proto::RunRecord& record = runs.records[i];
    result->samples -= record.resumed_samples();
    ++result->later_runs;
    result->later_steps += plan.points[point].steps / plan.rungs[rung].divisor;
    if (record.resumed_step() > 0) ++result->resumed_runs;
    result->resumed_steps += record.resumed_step();
  }
}

}  // namespace

std::vector<std::optional<double>> MeanAccuracies(const RungRuns& rung) {
  std::vector<std::optional<double>> accuracies;
  for (size_t place = 0; place < rung.points.size(); ++place) {
    const std::optional<Estimate> accuracy = PointIn(rung, place).accuracy;
    accuracies.push_back(accuracy ? std::optional(accuracy->mean) : std::nullopt);
  }
  return accuracies;
}

RungRuns MadeOf(const std::vector<size_t>& points,
                const std::vector<std::optional<proto::RunRecord>>& records) {
  RungRuns made;
  std::vector<bool> is_whole(points.size(), true);
  for (size_t i = 0; i < records.size(); ++i) {
    if (!records[i].has_value()) is_whole[i % points.size()] = false;
  }
  for (size_t i = 0; i < records.size(); ++i) {
    const size_t place = i % points.size();
    if (!is_whole[place]) continue;
    if (i < points.size()) made.points.push_back(points[place]);
    made.records.push_back(*records[i]);
  }
  return made;
}

SweepResult RankResults(const SweepPlan& plan, const std::vector<RungRuns>& rungs,
                        bool less_is_better) {
  SweepResult result;
  result.ranking.resize(plan.points.size());
  for (size_t rung = 0; rung < rungs.size(); ++rung) {
    for (size_t place = 0; place < rungs[rung].points.size(); ++place) {
      PointResult point = PointIn(rungs[rung], place);
      point.rung = rung;
      point.steps = plan.points[point.point].steps / plan.rungs[rung].divisor;
      result.ranking[point.point] = std::move(point);
    }
    AddWork(plan, rung, rungs[rung], &result);
  }
  std::erase_if(result.ranking, [](const PointResult& point) { return point.runs.empty(); });
  std::stable_sort(result.ranking.begin(), result.ranking.end(),
                   [=](const auto& a, const auto& b) { return IsBefore(a, b, less_is_better); });
  std::vector<size_t> all(plan.points.size());
  std::iota(all.begin(), all.end(), size_t{0});
  result.grid_samples = SamplesOfRung(plan, Rung{all.size(), 1}, all);
  return result;
}

}  // namespace strata::compare
