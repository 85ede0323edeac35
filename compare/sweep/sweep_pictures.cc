#include "compare/sweep/sweep_pictures.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compare/report/svg/drawing.h"
#include "compare/report/svg/scale.h"

namespace strata::compare {
namespace {

constexpr double kWidth = 720, kTop = 44, kRight = 700, kLeft = 76, kBottom = 340;
constexpr double kBelowAxis = 54, kMark = 8;
// Of text of 12 pixels, and between two values.
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

}  // namespace strata::compare
