#include "compare/report/report_charts.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "compare/figure_text.h"
#include "compare/report/charts.h"
#include "compare/report/drawing.h"

namespace strata::compare {

namespace {

// Its dump() writes null for numbers that are not finite.
using Json = nlohmann::ordered_json;

// "50 k", not "50.0 k": ticks are round.
std::string RoundText(const std::string& text) {
  return absl::StrReplaceAll(text, {{".00 ", " "}, {".0 ", " "}});
}

std::string RoundCount(double count) { return RoundText(CountText(count)); }
std::string Plain(double number) { return absl::StrFormat("%g", number); }
std::string RoundBytes(double bytes) { return RoundText(BytesText(bytes)); }

struct AxisWords {
  const char* id;
  const char* name;
  const char* format;  // see DescribedLines
  NumberText text;
};

AxisWords WordsFor(Axis axis) {
  if (axis == Axis::kSamples) return {"samples", "samples of all ranks", "count", RoundCount};
  if (axis == Axis::kUpdates) return {"updates", "updates of the weights", "count", RoundCount};
  return {"seconds", "seconds of training", "seconds", Plain};
}

std::string WholePercent(double share) { return absl::StrFormat("%g %%", share * 100); }

std::vector<LineSeries> MakeSeries(const Content& content,
                                   std::array<CurveSet, 3> ModeCurves::*kind, size_t axis) {
  std::vector<LineSeries> modes;
  for (size_t i = 0; i < content.curves.size(); ++i) {
    const CurveSet& curves = (content.curves[i].*kind)[axis];
    LineSeries& series = modes.emplace_back();
    series.name = content.analysis.modes[i].mode;
    series.band = curves.mean;
    for (const FailedRun& run : curves.failed) {
      series.thin.push_back(
          {absl::StrCat(series.name, ", seed ", run.seed, " (failed)"), run.curve});
    }
  }
  return modes;
}

template <typename Text>
BarRow MakeRow(const ModeFigures& mode, const std::optional<Estimate>& estimate,
               const std::string& absent, Text text) {
  if (!estimate) return {mode.mode, std::nullopt, std::nullopt, absent};
  const auto interval = estimate->shows_interval() ? estimate->interval : std::nullopt;
  return {mode.mode, estimate->mean, interval, text(estimate->mean)};
}

BarChart TimeChart(const Analysis& analysis) {
  BarChart chart;
  const std::string words = analysis.metric.words();
  const char* const space = analysis.metric.is_accuracy() ? "" : " ";
  chart.title = analysis.target_accuracy
                    ? absl::StrCat("Time to ", analysis.metric.is_accuracy() ? "" : words, space,
                                   ValueText(analysis.metric, *analysis.target_accuracy, 1))
                    : absl::StrCat("Time to ", words, ": no run finished");
  chart.x_name = WordsFor(Axis::kSeconds).name;
  chart.x_text = WordsFor(Axis::kSeconds).text;
  for (const ModeFigures& mode : analysis.modes) {
    const std::string absent =
        absl::StrCat("reached in ", mode.reached, " of ", mode.runs.size(), " runs");
    chart.modes.push_back(MakeRow(mode, mode.seconds_to_target,
                                  mode.final_accuracy ? absent : "failed",
                                  [](double seconds) { return SecondsText(seconds); }));
  }
  return chart;
}

BarChart BytesChart(const Analysis& analysis) {
  BarChart chart{"Bytes per step, all nodes, both ways", "bytes", RoundBytes, {}};
  for (const ModeFigures& mode : analysis.modes) {
    chart.modes.push_back(MakeRow(mode, mode.bytes_per_step, "failed", BytesText));
  }
  return chart;
}

BarChart WaitingChart(const Analysis& analysis) {
  BarChart chart{"Share of time in which ranks waited", "share of ranks' time", WholePercent, {}};
  for (const ModeFigures& mode : analysis.modes) {
    chart.modes.push_back(MakeRow(mode, mode.waiting_share, "failed",
                                  [](double share) { return PercentText(share, 1); }));
  }
  return chart;
}

HistogramChart StalenessChart(const Analysis& analysis) {
  HistogramChart chart{
      "Staleness of pushes", "staleness, in clocks or updates", "share of the mode's pushes", {}};
  for (const ModeFigures& mode : analysis.modes) chart.modes.push_back({mode.mode, mode.staleness});
  return chart;
}

Json AxisJson(const std::string& name, const char* format) {
  return {{"name", name}, {"format", format}};
}

Json ToChartsJson(const DescribedLines& lines) {
  Json modes = Json::array();
  for (const LineSeries& series : lines.chart.modes) {
    Json band = Json::array(), thin = Json::array();
    for (const BandPoint& point : series.band) {
      band.push_back({point.x, point.mean, point.low, point.high});
    }
    for (const NamedCurve& run : series.thin) {
      Json points = Json::array();
      for (const Point& point : run.curve) points.push_back({point.x, point.y});
      thin.push_back({{"name", run.name}, {"points", std::move(points)}});
    }
    modes.push_back({{"name", series.name}, {"band", std::move(band)}, {"thin", std::move(thin)}});
  }
  return {{"title", lines.chart.title},
          {"x", AxisJson(lines.chart.x_name, lines.x_format)},
          {"y", AxisJson(lines.chart.y_name, lines.y_format)},
          {"modes", std::move(modes)}};
}

Json ToChartsJson(const DescribedBars& bars) {
  Json modes = Json::array();
  for (const BarRow& row : bars.chart.modes) {
    const auto end = [&](double Interval::*which) {
      return row.interval ? Json((*row.interval).*which) : Json(nullptr);
    };
    modes.push_back({{"name", row.name},
                     {"value", row.value ? Json(*row.value) : Json(nullptr)},
                     {"low", end(&Interval::low)},
                     {"high", end(&Interval::high)},
                     {"text", row.text}});
  }
  return {{"title", bars.chart.title},
          {"x", AxisJson(bars.chart.x_name, bars.x_format)},
          {"modes", std::move(modes)}};
}

Json ToChartsJson(const HistogramChart& chart) {
  const std::vector<std::string> bins = BinNames(chart.modes);
  Json modes = Json::array();
  for (const HistogramSeries& series : chart.modes) {
    const double all = std::accumulate(series.bins.begin(), series.bins.end(), 0.0);
    Json shares = Json::array();
    for (size_t bin = 0; bin < bins.size() && all > 0; ++bin) {
      shares.push_back(bin < series.bins.size() ? series.bins[bin] / all : 0.0);
    }
    modes.push_back({{"name", series.name}, {"shares", std::move(shares)}});
  }
  return {{"title", chart.title},
          {"x", AxisJson(chart.x_name, "plain")},
          {"y", AxisJson(chart.y_name, "percent")},
          {"bins", bins},
          {"modes", std::move(modes)}};
}

}  // namespace

ReportCharts DescribeCharts(const Content& content) {
  ReportCharts charts;
  const Metric& metric = content.analysis.metric;
  const bool is_accuracy = metric.is_accuracy();
  const std::string title = is_accuracy ? "Accuracy on the test data" : metric.name;
  const NumberText text = is_accuracy ? NumberText(WholePercent) : NumberText(Plain);
  for (size_t axis = 0; axis < kAxes.size(); ++axis) {
    const AxisWords words = WordsFor(kAxes[axis]);
    charts.accuracy.push_back({words.id,
                               {title, words.name, words.text, metric.words(), text,
                                MakeSeries(content, &ModeCurves::accuracy, axis)},
                               words.format,
                               is_accuracy ? "percent" : "plain"});
    charts.loss.push_back({words.id,
                           {"Training loss", words.name, words.text, "loss", Plain,
                            MakeSeries(content, &ModeCurves::loss, axis)},
                           words.format,
                           "plain"});
  }
  const Analysis& analysis = content.analysis;
  charts.time = {TimeChart(analysis), WordsFor(Axis::kSeconds).format};
  charts.bytes = {BytesChart(analysis), "bytes"};
  charts.waiting = {WaitingChart(analysis), "percent"};
  charts.staleness = StalenessChart(analysis);
  return charts;
}

std::string ChartsJson(const ReportCharts& charts) {
  Json json;
  for (const DescribedLines& lines : charts.accuracy)
    json["accuracy"][lines.axis] = ToChartsJson(lines);
  for (const DescribedLines& lines : charts.loss) json["loss"][lines.axis] = ToChartsJson(lines);
  json["time"] = ToChartsJson(charts.time);
  json["bytes"] = ToChartsJson(charts.bytes);
  json["waiting"] = ToChartsJson(charts.waiting);
  json["staleness"] = ToChartsJson(charts.staleness);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Picture> DrawPictures(const ReportCharts& charts) {
  std::vector<Picture> pictures;
  for (size_t axis = 0; axis < charts.accuracy.size(); ++axis) {
    for (const auto& [kind, lines] :
         {std::pair("accuracy", &charts.accuracy[axis]), std::pair("loss", &charts.loss[axis])}) {
      pictures.push_back({absl::StrCat(kind, "_by_", lines->axis, ".svg"), Svg(lines->chart)});
    }
  }
  pictures.push_back({"time_to_accuracy.svg", Svg(charts.time.chart)});
  pictures.push_back({"bytes_per_step.svg", Svg(charts.bytes.chart)});
  pictures.push_back({"waiting.svg", Svg(charts.waiting.chart)});
  pictures.push_back({"staleness.svg", Svg(charts.staleness)});
  return pictures;
}

}  // namespace strata::compare
