#include "cli/bench/train_report.h"

#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/cores.h"
#include "common/counted.h"
#include "common/os/atomic_file.h"
#include "compare/figure_text.h"
#include "compare/report/charts.h"

namespace strata::cli {

std::string ProcessorIn(const std::string& cpuinfo) {
  for (absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2) return std::string(absl::StripAsciiWhitespace(parts[1]));
  }
  return "";
}

Machine ThisMachine() {
  Machine machine;
  machine.cores = UsableCores();
  std::ifstream cpuinfo("/proc/cpuinfo");
  machine.processor = ProcessorIn({std::istreambuf_iterator<char>(cpuinfo), {}});
  if (machine.processor.empty()) machine.processor = "unknown processor";
  if (getloadavg(&machine.load_average, 1) != 1) machine.load_average = 0;
  return machine;
}

namespace {

nlohmann::ordered_json ToJson(const TrainFigures& figures) {
  if (!figures.why_not.empty()) {
    return {{"mode", figures.what.mode},
            {"ranks", figures.what.ranks},
            {"nodes", figures.what.nodes},
            {"why_not", figures.why_not}};
  }
  return {{"mode", figures.what.mode},
          {"ranks", figures.what.ranks},
          {"nodes", figures.what.nodes},
          {"steps", figures.steps},
          {"images_per_s", figures.rate.median},
          {"images_per_s_by_round", figures.medians},
          {"efficiency", figures.efficiency.median},
          {"efficiency_by_round", figures.efficiencies},
          {"min_ms", figures.step.min_ms},
          {"median_ms", figures.step.median_ms},
          {"p99_ms", figures.step.p99_ms},
          {"bound_ms", figures.bound_ms},
          {"share", figures.share},
          {"share_by_round", figures.shares},
          {"overhead", figures.overhead()}};
}

nlohmann::ordered_json ToJson(const TrainedModel& model) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const TrainFigures& figures : model.result.figures) cases.push_back(ToJson(figures));
  return {{"name", model.name},
          {"batch", model.batch},
          {"device", model.is_on_gpu ? "GPU" : "CPU"},
          {"precision", model.precision},
          {"cases", cases},
          {"verified", model.result.wrong.empty()},
          {"compared_bits", model.compares_bits},
          {"wrong", model.result.wrong}};
}

std::string Range(const Spread& spread, const char* format) {
  auto text = [&](double value) {
    return absl::StrFormat(*absl::ParsedFormat<'f'>::New(format), value);
  };
  return absl::StrCat(text(spread.least), " - ", text(spread.most));
}

}  // namespace

std::vector<std::string> ListRules(const TrainReport& report) {
  std::vector<std::string> rules = {
      "base: 1 rank, exchange NONE, same device, precision and batch, 1 compute thread a rank, as "
      "all ranks have",
      "efficiency: images/s over ranks x those of the base in the same round",
      "none: as many jobs of 1 rank side by side; share: images/s over theirs in the same round; "
      "overhead: what the exchange adds to their step",
      absl::StrFormat(
          "%s, in turn, back and forth; %s; median and least - most of the rounds' medians",
          Counted(report.rounds, "round"),
          report.steps > 0
              ? Counted(report.steps, "step") + " of each rank, the first eighth "
                                                "warms up"
              : absl::StrFormat("about %g s each, the first eighth warms up", report.seconds)),
      absl::StrFormat("machine: %s (%s), load average %.1f before",
                      Counted(report.machine.cores, "core"), report.machine.processor,
                      report.machine.load_average)};
  const uint32_t ranks = report.cases.ranks_max;
  const uint32_t cores = report.machine.cores;
  if (!report.gpus.empty()) {
    rules.push_back(
        absl::StrCat("GPUs: ", absl::StrJoin(report.gpus, ", "),
                     "; jobs side by side, and nodes, take them in turn, and ranks that "
                     "share one share what it can do"));
  }
  bool is_on_cpu = false;
  for (const TrainedModel& model : report.models) is_on_cpu = is_on_cpu || !model.is_on_gpu;
  if (is_on_cpu && ranks > cores) {
    rules.push_back(absl::StrFormat(
        "note: %d ranks on %s: efficiency is at most %.2f whatever the exchange and says nothing "
        "of it; share does",
        ranks, Counted(cores, "core"), static_cast<double>(cores) / ranks));
  }
  if (is_on_cpu) {
    rules.push_back(
        "note: servers and aggregators compute on the same cores, which in a cluster they do not");
  }
  return rules;
}

std::string ModelTitle(const TrainedModel& model) {
  return absl::StrFormat("%s, batch %d a rank, on %s in %s; %s", model.name, model.batch,
                         model.is_on_gpu ? "GPU" : "CPU", model.precision,
                         !model.result.wrong.empty() ? "WRONG: " + model.result.wrong
                         : model.compares_bits
                             ? "verified: finite losses, all samples, sync's weights"
                             : "verified: finite losses, all samples");
}

std::vector<std::vector<std::string>> TableRows(const TrainedModel& model) {
  std::vector<std::vector<std::string>> rows = {{"mode", "ranks", "nodes", "images/s",
                                                 "least - most", "efficiency", "least - most",
                                                 "ms a step", "p99", "share", "overhead"}};
  for (const TrainFigures& one : model.result.figures) {
    if (!one.why_not.empty()) {
      rows.push_back({one.what.mode, absl::StrCat(one.what.ranks), absl::StrCat(one.what.nodes)});
      rows.back().resize(rows.front().size(), "-");
      rows.back().push_back(one.why_not);
      continue;
    }
    const bool is_none = one.what.is_none();
    rows.push_back({one.what.mode, absl::StrCat(one.what.ranks), absl::StrCat(one.what.nodes),
                    absl::StrFormat("%.0f", one.rate.median), Range(one.rate, "%.0f"),
                    absl::StrFormat("%.3f", one.efficiency.median),
                    is_none && one.what.ranks == 1 ? "base" : Range(one.efficiency, "%.3f"),
                    absl::StrFormat("%.3f", one.step.median_ms),
                    absl::StrFormat("%.3f", one.step.p99_ms),
                    is_none ? "" : absl::StrFormat("%.3f", one.share),
                    is_none ? "" : absl::StrFormat("%+.1f %%", 100 * one.overhead())});
  }
  return rows;
}

std::string ToJson(const TrainReport& report) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  bool is_verified = true;
  for (const TrainedModel& model : report.models) {
    models.push_back(ToJson(model));
    is_verified = is_verified && model.result.wrong.empty();
  }
  const nlohmann::ordered_json all = {
      {"base", "1 rank, exchange NONE, same device, precision and batch, 1 compute thread a rank"},
      {"cores", report.machine.cores},
      {"processor", report.machine.processor},
      {"load_average", report.machine.load_average},
      {"gpus", report.gpus},
      {"rounds", report.rounds},
      {"servers", report.cases.servers},
      {"ranks_per_node", report.cases.ranks_per_node},
      {"models", models},
      {"verified", is_verified}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

namespace {

constexpr char kHead[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>strata bench train</title>\n"
    "<style>:root{color-scheme:light dark}"
    "body{font:14px system-ui,'DejaVu Sans',sans-serif;max-width:1500px;margin:0 auto;padding:16px}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".wide{overflow-x:auto}svg{max-width:100%;height:auto}"
    "th,td{padding:2px 10px;text-align:right;border-bottom:1px solid #8886}"
    "th:first-child,td:first-child{text-align:left}</style></head>\n<body>\n"
    "<h1>strata bench train: images/s by ranks</h1>\n<ul>\n";

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// There is no half a rank.
std::string WholeNumber(double ranks) {
  return ranks == std::floor(ranks) ? absl::StrFormat("%g", ranks) : "";
}

// A line per mode, in the order of the first case of each.
std::vector<compare::LineSeries> SeriesOf(const TrainedModel& model, Spread TrainFigures::*what) {
  std::vector<compare::LineSeries> series;
  for (const TrainFigures& figures : model.result.figures) {
    if (!figures.why_not.empty()) continue;
    const std::string name =
        figures.what.is_none() ? "none: as many jobs side by side" : figures.what.mode;
    size_t i = 0;
    while (i < series.size() && series[i].name != name) ++i;
    if (i == series.size()) series.push_back({name, {}, {}});
    const Spread& spread = figures.*what;
    series[i].band.push_back(
        {static_cast<double>(figures.what.ranks), spread.median, spread.least, spread.most});
  }
  return series;
}

// Adds the line of r ranks at r times the base.
void AddIdeal(const TrainedModel& model, double at_none, double at_most,
              std::vector<compare::LineSeries>* series) {
  if (model.result.figures.empty()) return;
  const double ranks = model.result.figures.back().what.ranks;
  const std::string name = "ranks x the base";
  series->push_back({name, {}, {{name, {{0, at_none}, {ranks, at_most}}}}});
}

std::string TableOf(const TrainedModel& model) {
  std::string html = "<div class=\"wide\"><table>\n";
  const char* cell = "th";
  for (const std::vector<std::string>& row : TableRows(model)) {
    absl::StrAppend(&html, "<tr>");
    for (const std::string& text : row) {
      absl::StrAppend(&html, "<", cell, ">", Escaped(text), "</", cell, ">");
    }
    absl::StrAppend(&html, "</tr>\n");
    cell = "td";
  }
  return absl::StrCat(html, "</table></div>\n");
}

}  // namespace

std::string RatesPicture(const TrainedModel& model) {
  std::vector<compare::LineSeries> series = SeriesOf(model, &TrainFigures::rate);
  const auto& figures = model.result.figures;
  if (!figures.empty()) {
    AddIdeal(model, 0, figures.back().what.ranks * figures.front().rate.median, &series);
  }
  return compare::Svg(compare::LineChart{absl::StrCat(model.name, ": images/s"), "ranks",
                                         WholeNumber, "images/s", compare::CountText, series});
}

std::string EfficiencyPicture(const TrainedModel& model) {
  std::vector<compare::LineSeries> series = SeriesOf(model, &TrainFigures::efficiency);
  AddIdeal(model, 1, 1, &series);
  // Shares of the base begin at 0.
  if (!series.empty()) series.back().thin.push_back({{0, 0}});
  return compare::Svg(compare::LineChart{
      absl::StrCat(model.name, ": efficiency"), "ranks", WholeNumber, "share of ranks x the base",
      [](double share) { return compare::PercentText(share, 0); }, series});
}

std::string RenderPage(const TrainReport& report) {
  std::string html = kHead;
  for (const std::string& rule : ListRules(report)) {
    absl::StrAppend(&html, "<li>", Escaped(rule), "</li>\n");
  }
  absl::StrAppend(&html, "</ul>\n");
  for (const TrainedModel& model : report.models) {
    absl::StrAppend(&html, "<h2>", Escaped(ModelTitle(model)), "</h2>\n", TableOf(model));
    // Lines want two numbers of ranks.
    if (report.cases.ranks_max > 1) {
      absl::StrAppend(&html, RatesPicture(model), EfficiencyPicture(model));
    }
  }
  return absl::StrCat(html, "</body></html>\n");
}

absl::Status WriteTrainReport(const TrainReport& report, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(directory, ": ", error.message()));
  const absl::Status json = WriteFileAtomically(directory + "/train.json", ToJson(report));
  if (!json.ok()) return json;
  return WriteFileAtomically(directory + "/index.html", RenderPage(report));
}

}  // namespace strata::cli
