#include "compare/statistics/metric.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::compare {
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

proto::RunRecord ByMetric(const Metric& metric, proto::RunRecord run) {
  std::vector<proto::Measurement> having;
  for (const proto::Measurement& measurement : run.measurements()) {
    const std::optional<double> value = ValueOf(metric, measurement);
    if (!value) continue;
    having.push_back(measurement);
    having.back().set_accuracy(*value);
  }
  if (having.empty() && run.failure().empty() && run.steps() > 0) {
    const std::set<std::string> names = NamesIn(run);
    run.set_failure(
        names.empty()
            ? absl::StrCat("no ", metric.name, " was reported, nor any other figure of a test")
            : absl::StrCat("no ", metric.name, " was reported, but ", absl::StrJoin(names, ", "),
                           ": --metric NAME takes one of those"));
  }
  run.mutable_measurements()->Assign(having.begin(), having.end());
  return run;
}

}  // namespace strata::compare
