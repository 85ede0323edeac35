#include "compare/campaign/sweep_pictures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compare/report/drawing.h"

namespace strata::compare {

namespace {

constexpr double kWidth = 720, kTop = 44, kRight = 700, kLeft = 76, kBottom = 340;
constexpr double kBelowAxis = 54, kMark = 8;
// For text of 12 pixels, and between two values.
constexpr double kLetterWidth = 7, kGap = 8;

// The field's values at their positions; a name that would run into the one before is left out.
NumberText NamesOn(const proto::Variation& field, const ValueAxis& axis, const Scale& x) {
  std::vector<std::pair<double, std::string>> names;
  for (size_t i = 0; i < axis.positions.size(); ++i) {
    names.emplace_back(axis.positions[i], field.values(static_cast<int>(i)));
  }
  std::sort(names.begin(), names.end());
  double free = -1e9;
  for (auto& [position, name] : names) {
    const double half = kLetterWidth * static_cast<double>(name.size()) / 2;
    if (x.Pixel(position) - half < free) {
      name.clear();
    } else {
      free = x.Pixel(position) + half + kGap;
    }
  }
  return [names](double position) {
    const auto name = std::find_if(names.begin(), names.end(),
                                   [&](const auto& each) { return each.first == position; });
    return name == names.end() ? std::string() : name->second;
  };
}

Scale AccuracyScale(const std::vector<SweepLine>& lines) {
  double least = INFINITY, greatest = -INFINITY;
  for (const SweepLine& line : lines) {
    for (const LinePoint& point : line.points) {
      least = std::min(least, point.accuracy);
      greatest = std::max(greatest, point.accuracy);
    }
  }
  if (least > greatest) least = 0, greatest = 1;
  return RoundScale(least, greatest, 6, kBottom, kTop);
}

void DrawLine(const SweepLine& line, size_t index, const Scale& x, const Scale& y,
              Drawing* drawing) {
  for (size_t i = 0; i < line.points.size(); ++i) {
    const LinePoint& point = line.points[i];
    const struct Point at = {x.Pixel(point.x), y.Pixel(point.accuracy)};
    if (i > 0 && line.points[i - 1].rung == point.rung) {
      const LinePoint& before = line.points[i - 1];
      drawing->Curve({{x.Pixel(before.x), y.Pixel(before.accuracy)}, at}, index, false);
    }
    const double half = kMark / 2;
    if (point.is_whole) {
      drawing->Bar({at.x - half, at.y - half}, kMark, kMark, index);
    } else {
      drawing->Curve({{at.x - half, at.y - half},
                      {at.x + half, at.y - half},
                      {at.x + half, at.y + half},
                      {at.x - half, at.y + half},
                      {at.x - half, at.y - half}},
                     index, true);
    }
  }
}

}  // namespace

std::string SweepSvg(const proto::Variation& field, const std::vector<SweepLine>& lines,
                     const Metric& metric) {
  const bool is_share = metric.is_accuracy();
  Drawing drawing(kWidth, absl::StrCat(is_share ? "Accuracy" : metric.name, " by ", field.field()));
  const ValueAxis axis = MakeAxis(field);
  Scale x{axis.low, axis.high, kLeft, kRight, axis.positions};
  const Scale y = AccuracyScale(lines);
  const bool is_log = axis.kind == ValueAxis::Kind::kLogarithmic;
  DrawAxes(
      x, NamesOn(field, axis, x), absl::StrCat(field.field(), is_log ? ", log scale" : ""), y,
      [is_share](double value) {
        return is_share ? absl::StrFormat("%g %%", value * 100) : absl::StrFormat("%g", value);
      },
      is_share ? "accuracy on the test data" : metric.name, &drawing);
  std::vector<std::string> names;
  for (size_t i = 0; i < lines.size(); ++i) {
    DrawLine(lines[i], i, x, y, &drawing);
    if (!lines[i].name.empty()) names.push_back(lines[i].name);
  }
  return drawing.Finish(DrawLegend(names, kBottom + kBelowAxis, &drawing) + 8);
}

ValueAxis MakeAxis(const proto::Variation& variation) {
  ValueAxis axis;
  std::vector<double>& at = axis.positions;
  for (const std::string& value : variation.values()) {
    double number = 0;
    const bool is_number = absl::SimpleAtod(value, &number) && std::isfinite(number);
    if (!is_number) axis.kind = ValueAxis::Kind::kNames;
    at.push_back(number);
  }
  if (axis.kind == ValueAxis::Kind::kNames) {
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<double>(i);
  }
  const auto [least, greatest] = std::minmax_element(at.begin(), at.end());
  // 0.01 to 0.1 is a decade, whatever rounding says.
  const bool is_wide = *least > 0 && *greatest / *least > 10 * (1 - 1e-9);
  if (axis.kind == ValueAxis::Kind::kLinear && is_wide) {
    axis.kind = ValueAxis::Kind::kLogarithmic;
    for (double& position : at) position = std::log10(position);
  }
  const auto [first, last] = std::minmax_element(at.begin(), at.end());
  const double room = *last > *first ? 0.05 * (*last - *first) : 1;
  axis.low = *first - room;
  axis.high = *last + room;
  return axis;
}

namespace {

double PositionOf(const SweepPlan& plan, size_t field, const std::string& value) {
  const auto& values = plan.vary[field].values();
  return MakeAxis(plan.vary[field])
      .positions[std::find(values.begin(), values.end(), value) - values.begin()];
}

}  // namespace

std::vector<SweepLine> MakeSweepLines(const SweepPlan& plan, const SweepResult& result,
                                      size_t field) {
  std::vector<SweepLine> lines;
  std::map<std::string, size_t> line_of;  // by its name
  std::vector<size_t> line_of_point;
  for (const SweepPoint& point : plan.points) {
    std::vector<std::string> others = point.point.settings;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(field));
    const std::string name = absl::StrJoin(others, ", ");
    const auto [line, is_new] = line_of.try_emplace(name, lines.size());
    if (is_new) lines.push_back({name, {}});
    line_of_point.push_back(line->second);
  }
  for (const PointResult& point : result.ranking) {
    if (!point.accuracy) continue;
    const SweepPoint& planned = plan.points[point.point];
    lines[line_of_point[point.point]].points.push_back(
        {.x = PositionOf(plan, field, planned.point.values[field]),
         .accuracy = point.accuracy->mean,
         .rung = point.rung,
         .steps = point.steps,
         .is_whole = point.steps == planned.steps});
  }
  for (SweepLine& line : lines) {
    std::sort(line.points.begin(), line.points.end(),
              [](const LinePoint& a, const LinePoint& b) { return a.x < b.x; });
  }
  return lines;
}

}  // namespace strata::compare
