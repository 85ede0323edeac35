#include "compare/report/report_json.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/job/job.h"
#include "compare/figure_text.h"

namespace strata::compare {

namespace {

// Its dump() writes null for numbers that are not finite.
using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kAxisNames = {"samples", "seconds", "updates"};

Json ToJson(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

const char* NameOf(AccuracyFinding finding) {
  switch (finding) {
    case AccuracyFinding::kEqual:
      return "equal";
    case AccuracyFinding::kBetter:
      return "better";
    case AccuracyFinding::kWorse:
      return "worse";
    case AccuracyFinding::kUndecided:
      return "undecided";
    case AccuracyFinding::kUnknown:
      break;
  }
  return "unknown";
}

const char* NameOf(TimeFinding finding) {
  switch (finding) {
    case TimeFinding::kEqual:
      return "equal";
    case TimeFinding::kSooner:
      return "sooner";
    case TimeFinding::kLater:
      return "later";
    case TimeFinding::kUndecided:
      return "undecided";
    case TimeFinding::kUnknown:
      break;
  }
  return "unknown";
}

Json ToJson(const std::optional<Comparison>& comparison, double margin) {
  if (!comparison) return nullptr;
  return {{"pairs", comparison->pairs},
          {"accuracy", ToJson(comparison->accuracy)},
          {"accuracy_finding", NameOf(JudgeAccuracy(*comparison, margin))},
          {"at_equal_updates", ToJson(comparison->at_equal_updates)},
          {"speedup", ToJson(comparison->speedup)},
          {"time_finding", NameOf(JudgeTime(*comparison))}};
}

Json ToJson(const std::array<CurveSet, 3>& curves) {
  Json json;
  for (size_t axis = 0; axis < kAxes.size(); ++axis) {
    Json& points = json[kAxisNames[axis]] = Json::array();
    for (const BandPoint& point : curves[axis].mean) {
      points.push_back({point.x, point.mean, point.low, point.high});
    }
  }
  return json;
}

Json CurveOf(const proto::RunRecord& run, Curve (*curve)(const proto::RunRecord&, Axis)) {
  Json json;
  for (size_t axis = 0; axis < kAxes.size(); ++axis) {
    Json& points = json[kAxisNames[axis]] = Json::array();
    for (const Point& point : curve(run, kAxes[axis])) points.push_back({point.x, point.y});
  }
  return json;
}

Json RunJson(const proto::RunRecord& run, const RunFigures& figures) {
  const bool finished = figures.failure.empty();
  return {{"seed", run.seed()},
          {"failure", figures.failure},
          {"diverged", run.has_diverged()},
          {"final_accuracy", finished ? Json(figures.final_accuracy) : Json(nullptr)},
          {"accuracy_at_equal_samples", ToJson(figures.accuracy_at_equal_samples)},
          {"accuracy_at_equal_updates", ToJson(figures.accuracy_at_equal_updates)},
          {"seconds_to_target", ToJson(figures.seconds_to_target)},
          {"samples_to_target", ToJson(figures.samples_to_target)},
          {"trained_s", run.trained_s()},
          {"samples", run.samples()},
          {"steps", run.steps()},
          {"updates", run.updates()},
          {"bytes_pushed", run.bytes_pushed()},
          {"bytes_answered", run.bytes_answered()},
          {"waiting_share", run.waiting_share()},
          {"staleness", std::vector<uint64_t>(run.staleness().begin(), run.staleness().end())},
          {"accuracy", CurveOf(run, AccuracyCurve)},
          {"loss", CurveOf(run, LossCurve)}};
}

Json ModeJson(const ReportInput& input, const Content& content, size_t index) {
  const ModeFigures& mode = content.analysis.modes[index];
  const ModeParts parts = PartsOfMode(mode.mode);
  Json json = {{"mode", mode.mode},
               {"name", parts.name},
               {"settings", parts.settings},
               {"verdict", content.verdict.modes[index]},
               {"failed", mode.failed},
               {"reached", mode.reached},
               {"final_accuracy", ToJson(mode.final_accuracy)},
               {"accuracy_at_equal_samples", ToJson(mode.accuracy_at_equal_samples)},
               {"accuracy_at_equal_updates", ToJson(mode.accuracy_at_equal_updates)},
               {"seconds_to_target", ToJson(mode.seconds_to_target)},
               {"samples_to_target", ToJson(mode.samples_to_target)},
               {"trained_s", ToJson(mode.trained_s)},
               {"bytes_per_step", ToJson(mode.bytes_per_step)},
               {"waiting_share", ToJson(mode.waiting_share)},
               {"staleness", mode.staleness},
               {"mean_staleness", ToJson(MeanStaleness(mode.staleness))},
               {"comparison", ToJson(mode.comparison, content.analysis.equivalence_margin)},
               {"accuracy", ToJson(content.curves[index].accuracy)},
               {"loss", ToJson(content.curves[index].loss)}};
  Json& runs = json["runs"] = Json::array();
  for (const RunFigures& figures : mode.runs) {
    const auto run = std::find_if(input.runs.begin(), input.runs.end(), [&](const auto& r) {
      return r.mode() == mode.mode && r.seed() == figures.seed;
    });
    runs.push_back(RunJson(*run, figures));
    if (runs.size() > 1) continue;
    json["job"] = JobToText(run->job());
    json["cluster"] = run->cluster();
  }
  return json;
}

}  // namespace

std::string ReportJson(const ReportInput& input, const Content& content) {
  const Analysis& analysis = content.analysis;
  Json json = {
      {"schema", 1},
      {"title", input.title},
      {"straggler", input.straggler},
      {"under_way", input.under_way},
      {"answer", content.verdict.answer},
      {"verdict", content.verdict.overall},
      {"verdict_further", content.verdict.further},
      {"metric",
       {{"name", analysis.metric.name},
        {"words", analysis.metric.words()},
        {"goal", analysis.metric.less_is_better ? "min" : "max"},
        {"format", analysis.metric.is_accuracy() ? "percent" : "plain"}}},
      {"target_accuracy", ToJson(analysis.target_accuracy)},
      {"target", TargetText(analysis)},
      {"target_words",
       analysis.target_accuracy ? ValueText(analysis.metric, *analysis.target_accuracy, 1) : ""},
      {"seeds_for_interval", kSeedsForInterval},
      {"equivalence_margin", analysis.equivalence_margin},
      {"equal_samples", analysis.equal_samples},
      {"equal_updates", analysis.equal_updates},
      {"table", content.rows},
      {"rules", content.rules}};
  Json& modes = json["modes"] = Json::array();
  for (size_t i = 0; i < analysis.modes.size(); ++i) modes.push_back(ModeJson(input, content, i));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json ToJson(const std::optional<Estimate>& estimate) {
  using Json = nlohmann::ordered_json;
  if (!estimate) return nullptr;
  Json json = {{"mean", estimate->mean}, {"count", estimate->count}};
  json["low"] = estimate->interval ? Json(estimate->interval->low) : Json(nullptr);
  json["high"] = estimate->interval ? Json(estimate->interval->high) : Json(nullptr);
  return json;
}

}  // namespace strata::compare
