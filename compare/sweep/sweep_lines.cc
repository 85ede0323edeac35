#include "compare/sweep/sweep_lines.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_join.h"

namespace strata::compare {
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
