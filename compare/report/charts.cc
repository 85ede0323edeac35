#include "compare/report/charts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compare/figure_text.h"
#include "compare/report/drawing.h"

namespace strata::compare {
namespace {

constexpr double kWidth = 720, kTop = 44, kRight = 700, kLeft = 76, kBottom = 340;
constexpr double kBelowAxis = 54;

template <typename Series>
std::vector<std::string> Names(const std::vector<Series>& modes) {
  std::vector<std::string> names;
  for (const Series& mode : modes) names.push_back(mode.name);
  return names;
}

// The extent of all points of a chart.
struct Extent {
  double x_greatest = 0;
  double y_least = INFINITY;
  double y_greatest = -INFINITY;

  void Take(double x, double low, double high) {
    x_greatest = std::max(x_greatest, x);
    y_least = std::min(y_least, low);
    y_greatest = std::max(y_greatest, high);
  }
};

Extent ExtentOf(const LineChart& chart) {
  Extent extent;
  for (const LineSeries& mode : chart.modes) {
    for (const BandPoint& point : mode.band) extent.Take(point.x, point.low, point.high);
    for (const NamedCurve& run : mode.thin) {
      for (const Point& point : run.curve) extent.Take(point.x, point.y, point.y);
    }
  }
  if (extent.y_least > extent.y_greatest) extent.y_least = extent.y_greatest = 0;
  return extent;
}

void DrawSeries(const LineSeries& series, size_t mode, const Scale& x, const Scale& y,
                Drawing* drawing) {
  std::vector<Point> mean, low, high;
  for (const BandPoint& point : series.band) {
    mean.push_back({x.Pixel(point.x), y.Pixel(point.mean)});
    low.push_back({x.Pixel(point.x), y.Pixel(point.low)});
    high.push_back({x.Pixel(point.x), y.Pixel(point.high)});
  }
  if (!mean.empty()) {
    drawing->Area(high, low, mode);
    // A line of one point is none.
    if (mean.size() == 1) drawing->Dot(mean.front(), mode);
    drawing->Curve(mean, mode, false);
  }
  for (const NamedCurve& run : series.thin) {
    std::vector<Point> line;
    for (const Point& point : run.curve) line.push_back({x.Pixel(point.x), y.Pixel(point.y)});
    if (!line.empty()) drawing->Curve(line, mode, true);
  }
}

// Cut off, without an end, at the ends of the axis.
void DrawInterval(const Interval& interval, double middle, const Scale& x, Drawing* drawing) {
  const double low = x.Pixel(std::max(interval.low, x.low));
  const double high = x.Pixel(std::min(interval.high, x.high));
  drawing->Line({low, middle}, {high, middle}, Ink::kText);
  if (interval.low >= x.low) drawing->Line({low, middle - 5}, {low, middle + 5}, Ink::kText);
  if (interval.high <= x.high) drawing->Line({high, middle - 5}, {high, middle + 5}, Ink::kText);
}

// The end of an axis that shows all bars, and their intervals unless those are much longer.
double Longest(const std::vector<BarRow>& rows) {
  double bar = 0, interval = 0;
  for (const BarRow& row : rows) {
    bar = std::max(bar, row.value.value_or(0));
    if (row.interval) interval = std::max(interval, row.interval->high);
  }
  return std::min(std::max(bar, interval), 2 * bar);
}

// Modes often differ in what stands last.
std::string ShortName(const std::string& name) {
  constexpr size_t kBegin = 10, kEnd = 9;
  if (name.size() <= kBegin + kEnd + 3) return name;
  return absl::StrCat(name.substr(0, kBegin), "...", name.substr(name.size() - kEnd));
}

}  // namespace

std::string Svg(const LineChart& chart) {
  Drawing drawing(kWidth, chart.title);
  const Extent extent = ExtentOf(chart);
  const Scale x = RoundScale(0, extent.x_greatest, 6, kLeft, kRight);
  const Scale y = RoundScale(extent.y_least, extent.y_greatest, 6, kBottom, kTop);
  DrawAxes(x, chart.x_text, chart.x_name, y, chart.y_text, chart.y_name, &drawing);
  for (size_t mode = 0; mode < chart.modes.size(); ++mode) {
    DrawSeries(chart.modes[mode], mode, x, y, &drawing);
  }
  return drawing.Finish(DrawLegend(Names(chart.modes), kBottom + kBelowAxis, &drawing) + 8);
}

std::string Svg(const BarChart& chart) {
  constexpr double kRow = 30, kThick = 18, kNames = 170, kFigures = 90;
  Drawing drawing(kWidth, chart.title);
  const double bottom = kTop + kRow * chart.modes.size();
  const Scale x = RoundScale(0, Longest(chart.modes), 5, kNames, kRight - kFigures);
  const Scale no_numbers{0, 1, bottom, kTop, {}};
  DrawAxes(x, chart.x_text, chart.x_name, no_numbers, nullptr, "", &drawing);
  for (size_t mode = 0; mode < chart.modes.size(); ++mode) {
    const BarRow& row = chart.modes[mode];
    const double middle = kTop + kRow * (mode + 0.5);
    drawing.Text({kNames - 8, middle + 4}, ShortName(row.name), Anchor::kEnd, Ink::kText);
    double end = x.from;
    if (row.value) {
      end = x.Pixel(*row.value);
      drawing.Bar({x.from, middle - kThick / 2}, end - x.from, kThick, mode);
    }
    if (row.interval) {
      DrawInterval(*row.interval, middle, x, &drawing);
      end = std::max(end, x.Pixel(std::min(row.interval->high, x.high)));
    }
    drawing.Text({end + 6, middle + 4}, row.text, Anchor::kStart,
                 row.value ? Ink::kText : Ink::kMuted);
  }
  return drawing.Finish(bottom + kBelowAxis);
}

std::vector<std::string> BinNames(const std::vector<HistogramSeries>& modes) {
  size_t bins = 0, used = 0;
  for (const HistogramSeries& mode : modes) {
    bins = std::max(bins, mode.bins.size());
    for (size_t bin = 0; bin < mode.bins.size(); ++bin) {
      if (mode.bins[bin] > 0) used = std::max(used, bin + 1);
    }
  }
  std::vector<std::string> names;
  for (size_t bin = 0; bin < used; ++bin) {
    names.push_back(absl::StrCat(bin, bin > 0 && bin + 1 == bins ? "+" : ""));
  }
  return names;
}

std::string Svg(const HistogramChart& chart) {
  Drawing drawing(kWidth, chart.title);
  const std::vector<std::string> names = BinNames(chart.modes);
  const Scale no_numbers{0, 1, kLeft, kRight, {}};
  const Scale y = RoundScale(0, 1, 5, kBottom, kTop);
  DrawAxes(
      no_numbers, nullptr, chart.x_name, y, [](double share) { return PercentText(share, 0); },
      chart.y_name, &drawing);
  const double bin_width = (kRight - kLeft) / std::max<size_t>(names.size(), 1);
  const double bar_width = bin_width * 0.84 / std::max<size_t>(chart.modes.size(), 1);
  for (size_t bin = 0; bin < names.size(); ++bin) {
    const double left = kLeft + bin_width * (bin + 0.08);
    drawing.Text({kLeft + bin_width * (bin + 0.5), kBottom + 18}, names[bin], Anchor::kMiddle,
                 Ink::kText);
    for (size_t mode = 0; mode < chart.modes.size(); ++mode) {
      const std::vector<uint64_t>& bins = chart.modes[mode].bins;
      if (bin >= bins.size() || bins[bin] == 0) continue;
      const double share = bins[bin] / std::accumulate(bins.begin(), bins.end(), 0.0);
      drawing.Bar({left + mode * bar_width, y.Pixel(share)}, bar_width * 0.9,
                  kBottom - y.Pixel(share), mode);
    }
  }
  return drawing.Finish(DrawLegend(Names(chart.modes), kBottom + kBelowAxis, &drawing) + 8);
}

}  // namespace strata::compare
