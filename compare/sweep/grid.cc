#include "compare/sweep/grid.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compare/campaign/split_outside.h"

namespace strata::compare {
namespace {

absl::StatusOr<proto::Variation> ParseVariation(const std::string& text) {
  const auto refuse = [&text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": ", why));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return refuse("is not FIELD=V1,V2,..., as in schedule.base_lr=0.01,0.1");
  }
  proto::Variation variation;
  variation.set_field(text.substr(0, equals));
  const std::string list = text.substr(equals + 1);
  if (absl::StripAsciiWhitespace(list).empty()) return refuse("has no values");
  for (const std::string& part : SplitOutside(list, [&](size_t i) { return list[i] == ','; })) {
    const std::string value(absl::StripAsciiWhitespace(part));
    if (value.empty()) return refuse("an empty value between commas");
    const auto& there = variation.values();
    if (std::find(there.begin(), there.end(), value) != there.end()) {
      return refuse(absl::StrCat("value ", value, " is there twice"));
    }
    variation.add_values(value);
  }
  return variation;
}

}  // namespace

absl::StatusOr<std::vector<proto::Variation>> ParseVariations(
    const std::vector<std::string>& texts) {
  std::vector<proto::Variation> variations;
  size_t points = 1;
  for (const std::string& text : texts) {
    absl::StatusOr<proto::Variation> variation = ParseVariation(text);
    if (!variation.ok()) return variation.status();
    for (const proto::Variation& other : variations) {
      if (other.field() != variation->field()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(other.field(), ": is varied twice; all its values belong into one list"));
    }
    points *= variation->values_size();
    if (points > kPointsMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          variation->field(), ": makes ", points, " points, ", kPointsMax, " are allowed at most"));
    }
    variations.push_back(*std::move(variation));
  }
  return variations;
}

std::vector<GridPoint> MakeGrid(const std::vector<proto::Variation>& variations) {
  std::vector<GridPoint> points(1);
  for (const proto::Variation& variation : variations) {
    std::vector<GridPoint> longer;
    for (const GridPoint& point : points) {
      for (const std::string& value : variation.values()) {
        longer.push_back(point);
        longer.back().values.push_back(value);
        longer.back().settings.push_back(absl::StrCat(variation.field(), "=", value));
      }
    }
    points = std::move(longer);
  }
  for (GridPoint& point : points) point.name = absl::StrJoin(point.settings, "+");
  return points;
}

}  // namespace strata::compare
