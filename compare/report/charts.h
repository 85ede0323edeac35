#ifndef STRATA_COMPARE_REPORT_CHARTS_H_
#define STRATA_COMPARE_REPORT_CHARTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/analysis.h"
#include "compare/curve.h"
#include "compare/report/drawing.h"

namespace strata::compare {

// The data of one mode in a picture; its index in the list identifies the mode. All numbers are
// finite.

struct NamedCurve {
  std::string name;
  Curve curve;
};

struct LineSeries {
  std::string name;
  std::vector<BandPoint> band;   // may be empty
  std::vector<NamedCurve> thin;  // runs that failed
};

struct LineChart {
  std::string title;
  std::string x_name;  // with the unit, as y_name
  NumberText x_text;
  std::string y_name;
  NumberText y_text;
  std::vector<LineSeries> modes;
};

struct BarRow {
  std::string name;
  std::optional<double> value;
  std::optional<Interval> interval;
  std::string text;  // beside the bar, also if there is none
};

// Horizontal bars from 0.
struct BarChart {
  std::string title;
  std::string x_name;
  NumberText x_text;
  std::vector<BarRow> modes;
};

struct HistogramSeries {
  std::string name;
  std::vector<uint64_t> bins;  // may be empty
};

// Shares of each mode's counts, by bin.
struct HistogramChart {
  std::string title;
  std::string x_name;
  std::string y_name;
  std::vector<HistogramSeries> modes;
};

// Return SVG files; x and shares begin at 0. A chart without any value has only its axes.
std::string Svg(const LineChart& chart);
std::string Svg(const BarChart& chart);
std::string Svg(const HistogramChart& chart);

// Returns the names of several modes' bins up to the last that is not 0 in all of them, by number;
// "31+" for the last bin of all, which also counts larger values.
std::vector<std::string> BinNames(const std::vector<HistogramSeries>& modes);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_CHARTS_H_
