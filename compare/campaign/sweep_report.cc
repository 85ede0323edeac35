#include "compare/campaign/sweep_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/campaign/sweep_page_files.h"
#include "compare/campaign/sweep_pictures.h"
#include "compare/figure_text.h"
#include "compare/report/report_files.h"
#include "compare/report/report_json.h"

namespace strata::compare {
namespace {

// Its dump() writes null for numbers that are not finite.
using Json = nlohmann::ordered_json;

constexpr char kNone[] = "-";

std::string AccuracyCell(const Metric& metric, const PointResult& point) {
  if (!point.accuracy) return kNone;
  const std::string mean = ValueText(metric, point.accuracy->mean, 2);
  if (!point.accuracy->interval) return mean;
  if (!point.accuracy->shows_interval()) {
    return absl::StrCat(mean, " (", SeedsText(point.accuracy->count), ")");
  }
  return absl::StrCat(mean, " (", ValueText(metric, *point.accuracy->interval, 2), ")");
}

std::string MetricWords(const Metric& metric, double value) {
  const std::string text = ValueText(metric, value, 2);
  return metric.is_accuracy() ? absl::StrCat(text, " on the test data")
                              : absl::StrCat(metric.name, " ", text);
}

bool IsOfProgram(const SweepReport& report) {
  return report.plan.points.front().plan.job.has_program();
}

std::string RunsCell(const PointResult& point) {
  const auto failed = std::count_if(point.runs.begin(), point.runs.end(),
                                    [](const PointRun& run) { return !run.failure.empty(); });
  if (failed == 0) return absl::StrCat(point.runs.size());
  return absl::StrCat(point.runs.size(), ", ", failed, " failed");
}

// The rules of measurement, which go with all figures.
std::vector<std::string> RulesOf(const SweepReport& report) {
  const std::string words = report.metric.words();
  std::vector<std::string> rules = {
      absl::StrCat("Final ", words,
                   report.metric.is_accuracy() && !IsOfProgram(report)
                       ? ": of the final weights on the test data"
                       : ": the last that rank 0 of the program reported",
                   ", the mean over seeds; a point with a run that failed has none."),
      absl::StrCat("Points are chosen by that ", words,
                   ", so that of the best is flattered: what it is worth says a run with other "
                   "seeds or data.")};
  if (!report.metric.is_accuracy()) {
    rules.push_back(
        absl::StrCat(report.metric.less_is_better ? "Less " : "More ", words, " is better."));
  }
  if (report.halving > 0) {
    rules.push_back(absl::StrFormat(
        "Successive halving: of each rung the best 1/%d go on with %d times the steps, %s. The "
        "learning rate follows the whole job's schedule, of which the rungs before the last see "
        "the beginning.",
        report.halving, report.halving,
        report.result.resumed_runs > 0
            ? "from a checkpoint of the rung before where there is one; time is that of all steps"
            : "from the start again"));
    rules.push_back(
        "A point's accuracy is that of the last rung that it was in; those with fewer steps do not "
        "compare with those with more.");
  }
  return rules;
}

std::string HowRungsBegan(const SweepResult& result) {
  if (result.resumed_runs == 0) return "each from the start";
  if (result.resumed_runs == result.later_runs) return "each from checkpoints of the one before";
  return absl::StrFormat("%d of %d later runs from a checkpoint of the rung before",
                         result.resumed_runs, result.later_runs);
}

// True if several points were run and all ended with the same number.
bool AllEndAlike(const SweepResult& result) {
  const auto& best = result.ranking.front().accuracy;
  return result.ranking.size() > 1 && best &&
         std::all_of(result.ranking.begin(), result.ranking.end(), [&](const PointResult& each) {
           return each.accuracy && each.accuracy->mean == best->mean;
         });
}

std::string BestWords(const SweepReport& report) {
  const PointResult& best = report.result.ranking.front();
  const bool is_over = report.under_way.empty();
  if (!best.accuracy) return is_over ? "No point has finished." : "No point has finished yet.";
  const std::string value = MetricWords(report.metric, best.accuracy->mean);
  if (AllEndAlike(report.result)) {
    const auto name = [](std::string* out, const proto::Variation& variation) {
      absl::StrAppend(out, variation.field());
    };
    return absl::StrCat("None is best: all ", report.result.ranking.size(),
                        " points end with exactly the same ", value, ", so nothing shows that ",
                        absl::StrJoin(report.plan.vary, " or ", name), " has an effect.");
  }
  const GridPoint& point = report.plan.points[best.point].point;
  return absl::StrCat(is_over ? "Best: " : "Best so far: ", absl::StrJoin(point.settings, ", "),
                      " with ", value, ".");
}

const char* NameOf(ValueAxis::Kind kind) {
  switch (kind) {
    case ValueAxis::Kind::kLogarithmic:
      return "logarithmic";
    case ValueAxis::Kind::kNames:
      return "names";
    case ValueAxis::Kind::kLinear:
      break;
  }
  return "linear";
}

Json LinesJson(const std::vector<SweepLine>& lines) {
  Json all = Json::array();
  for (const SweepLine& line : lines) {
    Json points = Json::array();
    for (const LinePoint& point : line.points) {
      points.push_back({{"x", point.x},
                        {"accuracy", point.accuracy},
                        {"rung", point.rung + 1},
                        {"steps", point.steps},
                        {"whole", point.is_whole}});
    }
    all.push_back({{"name", line.name}, {"points", points}});
  }
  return all;
}

Json VaryJson(const SweepReport& report) {
  Json all = Json::array();
  for (size_t field = 0; field < report.plan.vary.size(); ++field) {
    const proto::Variation& variation = report.plan.vary[field];
    const ValueAxis axis = MakeAxis(variation);
    all.push_back(
        {{"field", variation.field()},
         {"values", std::vector<std::string>(variation.values().begin(), variation.values().end())},
         {"axis", NameOf(axis.kind)},
         {"positions", axis.positions},
         {"low", axis.low},
         {"high", axis.high},
         {"series", LinesJson(MakeSweepLines(report.plan, report.result, field))}});
  }
  return all;
}

Json PointJson(const SweepReport& report, const PointResult& result) {
  const SweepPoint& point = report.plan.points[result.point];
  Json runs = Json::array();
  for (const PointRun& run : result.runs) {
    const bool finished = run.failure.empty();
    runs.push_back({{"seed", run.seed},
                    {"failure", run.failure},
                    {"accuracy", finished ? Json(run.accuracy) : Json(nullptr)},
                    {"trained_s", finished ? Json(run.trained_s) : Json(nullptr)},
                    {"resumed_step", run.resumed_step},
                    {"began_anew", run.began_anew}});
  }
  return {{"point", point.point.name},
          {"values", point.point.values},
          {"rung", result.rung + 1},
          {"steps", result.steps},
          {"whole", result.steps == point.steps},
          {"accuracy", ToJson(result.accuracy)},
          {"trained_s", ToJson(result.trained_s)},
          {"runs", runs}};
}

}  // namespace

std::vector<std::vector<std::string>> SweepTable(const SweepReport& report) {
  std::vector<std::vector<std::string>> rows(1);
  for (const proto::Variation& variation : report.plan.vary) rows[0].push_back(variation.field());
  for (const std::string& name :
       {report.metric.words(), std::string("steps"), std::string("time"), std::string("runs")}) {
    rows[0].push_back(name);
  }
  for (const PointResult& result : report.result.ranking) {
    std::vector<std::string>& row = rows.emplace_back();
    row = report.plan.points[result.point].point.values;
    row.push_back(AccuracyCell(report.metric, result));
    row.push_back(IsOfProgram(report) ? kNone : absl::StrCat(result.steps));
    row.push_back(result.trained_s ? SecondsText(result.trained_s->mean) : kNone);
    row.push_back(RunsCell(result));
  }
  return rows;
}

std::vector<std::string> SweepWords(const SweepReport& report) {
  std::vector<std::string> words = {BestWords(report)};
  // The saving of halving is known only at the end, and is none where nothing was found.
  const bool is_over = report.under_way.empty() && report.result.ranking.front().accuracy;
  if (report.halving == 0 || !is_over) return words;
  const double share = static_cast<double>(report.result.samples) / report.result.grid_samples;
  words.push_back(absl::StrFormat(
      "Halving: trained on %s samples in %s, %s; the whole grid takes %s: %s %s.",
      CountText(report.result.samples), Counted(report.plan.rungs.size(), "rung"),
      HowRungsBegan(report.result), CountText(report.result.grid_samples),
      share <= 1 ? "saved" : "more by", PercentText(share <= 1 ? 1 - share : share - 1, 1)));
  if (report.result.resumed_runs > 0) {
    words.push_back(absl::StrFormat(
        "Later rungs made %d of their runs' %d steps; the others they had from checkpoints.",
        report.result.later_steps - report.result.resumed_steps, report.result.later_steps));
  }
  return words;
}

std::string SweepJson(const SweepReport& report) {
  const std::vector<std::string> words = SweepWords(report);
  Json rungs = Json::array();
  for (const Rung& rung : report.plan.rungs) {
    rungs.push_back({{"points", rung.points}, {"divisor", rung.divisor}});
  }
  Json json = {{"schema", 1},
               {"title", report.title},
               {"cluster", report.cluster},
               {"metric",
                {{"words", report.metric.words()},
                 {"goal", report.metric.less_is_better ? "min" : "max"},
                 {"format", report.metric.is_accuracy() ? "percent" : "plain"}}},
               {"verdict", words},
               {"under_way", report.under_way},
               {"vary", VaryJson(report)},
               {"seeds", report.plan.seeds},
               {"halving", report.halving},
               {"rungs", rungs},
               {"samples", report.result.samples},
               {"grid_samples", report.result.grid_samples},
               {"later_steps", report.result.later_steps},
               {"resumed_steps", report.result.resumed_steps},
               {"table", SweepTable(report)},
               {"rules", RulesOf(report)}};
  Json& points = json["points"] = Json::array();
  for (const PointResult& result : report.result.ranking) {
    points.push_back(PointJson(report, result));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteSweepReport(const SweepReport& report, const std::string& directory) {
  const PageParts parts = {.title = "Strata: sweep",
                           .document = "sweep.json",
                           .main = kSweepMainHtml,
                           .style = kSweepCss,
                           .scripts = kSweepJs};
  const std::string json = SweepJson(report);
  std::vector<Picture> pictures;
  for (size_t field = 0; field < report.plan.vary.size(); ++field) {
    const proto::Variation& variation = report.plan.vary[field];
    const std::vector<SweepLine> lines = MakeSweepLines(report.plan, report.result, field);
    pictures.push_back({absl::StrCat("accuracy_by_", ModeFileName(variation.field()), ".svg"),
                        SweepSvg(variation, lines, report.metric)});
  }
  return WriteReportFiles({.document = parts.document,
                           .json = json,
                           .page = AssemblePage(parts, json),
                           .pictures = std::move(pictures)},
                          directory);
}

}  // namespace strata::compare
