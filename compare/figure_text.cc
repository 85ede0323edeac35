#include "compare/figure_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::compare {
namespace {

// Three digits that count.
std::string ThreeDigits(double value) {
  const double magnitude = std::abs(value);
  const int digits = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : magnitude >= 0.9995 ? 2 : 3;
  if (magnitude > 0 && magnitude < 0.0995) return absl::StrFormat("%.3g", value);
  return absl::StrFormat("%.*f", digits, value);
}

std::string WithPrefix(double value, const char* unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  int i = 0;
  for (; i < 5 && std::abs(value) >= 999.5; ++i) value /= 1000;
  const bool is_whole = i == 0 && value == std::floor(value);
  const std::string digits = is_whole ? absl::StrFormat("%.0f", value) : ThreeDigits(value);
  const std::string symbol = absl::StrCat(prefixes[i], unit);
  return symbol.empty() ? digits : absl::StrCat(digits, " ", symbol);
}

std::string Plain(double value) { return absl::StrFormat("%.4g", value); }

}  // namespace

std::string PercentText(double share, int digits) {
  return absl::StrFormat("%.*f %%", digits, share * 100);
}

std::string PercentText(const Interval& interval, int digits) {
  const double low = std::clamp(interval.low, 0.0, 1.0) * 100;
  const double high = std::clamp(interval.high, 0.0, 1.0) * 100;
  return absl::StrFormat("%.*f to %.*f", digits, low, digits, high);
}

std::string PointsText(double difference) {
  const std::string text = absl::StrFormat("%+.2f", difference * 100);
  return text == "-0.00" ? "+0.00" : text;
}

std::string PointsText(const Interval& interval) {
  return absl::StrCat(PointsText(interval.low), " to ", PointsText(interval.high));
}

std::string RatioText(double ratio) {
  return ratio < 10 ? absl::StrFormat("%.2f", ratio) : ThreeDigits(ratio);
}

std::string RatioText(const Interval& interval) {
  return absl::StrCat(RatioText(interval.low), " to ", RatioText(interval.high));
}

std::string SecondsText(double seconds) { return absl::StrCat(ThreeDigits(seconds), " s"); }

std::string SecondsText(const Interval& interval) {
  return absl::StrCat(ThreeDigits(interval.low), " to ", ThreeDigits(interval.high));
}

std::string CountText(double count) { return WithPrefix(count, ""); }

std::string BytesText(double bytes) { return WithPrefix(bytes, "B"); }

std::string ValueText(const Metric& metric, double value, int digits) {
  return metric.is_accuracy() ? PercentText(value, digits) : Plain(value);
}

std::string ValueText(const Metric& metric, const Interval& interval, int digits) {
  if (metric.is_accuracy()) return PercentText(interval, digits);
  return absl::StrCat(Plain(interval.low), " to ", Plain(interval.high));
}

std::string DifferenceText(const Metric& metric, double difference) {
  if (metric.is_accuracy()) return PointsText(difference);
  return absl::StrFormat("%+.3g", difference == 0 ? 0 : difference);
}

std::string DifferenceText(const Metric& metric, const Interval& interval) {
  return absl::StrCat(DifferenceText(metric, interval.low), " to ",
                      DifferenceText(metric, interval.high));
}

std::string MarginText(const Metric& metric, double margin) {
  return metric.is_accuracy() ? absl::StrFormat("%g points", margin * 100)
                              : absl::StrFormat("%.3g", margin);
}

std::string SeedsText(int count) { return absl::StrCat(count, count == 1 ? " seed" : " seeds"); }

ModeParts PartsOfMode(const std::string& mode) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = 0; i < mode.size(); ++i) {
    const char c = mode[i];
    if (c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']') --depth;
    if (c == '+' && depth == 0 && i + 1 < mode.size() && absl::ascii_isalpha(mode[i + 1])) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  ModeParts made{parts.front(), {parts.begin() + 1, parts.end()}};
  return made;
}

std::string TargetText(const Analysis& analysis) {
  if (!analysis.target_accuracy) return "";
  const Metric& metric = analysis.metric;
  const std::string target = ValueText(metric, *analysis.target_accuracy, 1);
  if (analysis.target_is_given) return absl::StrCat(target, " (as given)");
  const double sign = metric.less_is_better ? -1 : 1;
  const auto is_far_below = [&](const ModeFigures& mode) {
    return mode.final_accuracy &&
           sign * mode.final_accuracy->mean < sign * *analysis.target_accuracy;
  };
  const bool some_are = std::any_of(analysis.modes.begin(), analysis.modes.end(), is_far_below);
  if (!metric.is_accuracy()) {
    return absl::StrCat(target, " (1 % worse than the worst mean final ", metric.name, ", ",
                        analysis.target_mode, "'s",
                        some_are ? ", without modes more than 10 % worse than the best)" : ")");
  }
  return absl::StrCat(target, " (1 point below the lowest mean final accuracy, ",
                      analysis.target_mode, "'s",
                      some_are ? ", without modes more than 10 points below the best)" : ")");
}

}  // namespace strata::compare
