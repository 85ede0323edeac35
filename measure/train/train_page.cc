#include "measure/train/train_page.h"

#include <cmath>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/file/atomic_file.h"
#include "compare/report/svg/charts.h"
#include "compare/statistics/figure_text.h"

namespace strata::bench {
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

// What r ranks would be if they were r times the base, from none on.
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

}  // namespace strata::bench
