#include "cli/render/bar/progress_bar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::cli {
namespace {

// With its brackets. A shorter one would tell less than the share beside it.
constexpr int kBarColumnsMin = 10;
constexpr int kBarColumnsMax = 30;

}  // namespace

std::string Bar(double share, int columns) {
  const int cells = columns - 2;
  const int full = static_cast<int>(share * cells);
  return absl::StrCat("[", std::string(full, '#'), std::string(cells - full, '-'), "]");
}

bool ShowsBars(const Environment& environment) {
  return Variable(environment, "TERM") != "dumb" && Variable(environment, "NO_COLOR").empty();
}

std::string WithBar(uint64_t step, uint64_t total_steps, const std::string& rest, int columns) {
  if (total_steps == 0) return rest;
  const double share = std::min(1.0, static_cast<double>(step) / static_cast<double>(total_steps));
  const std::string steps = absl::StrCat("step ", step, "/", total_steps, "  ");
  // Rounded down: 100 % is the last step.
  const std::string share_and_rest = absl::StrCat(static_cast<int>(share * 100), " %  ", rest);
  const auto left = [columns](size_t taken) { return columns - static_cast<int>(taken); };
  const int for_bar = left(steps.size() + share_and_rest.size()) - 2;
  if (for_bar >= kBarColumnsMin) {
    return absl::StrCat(steps, Bar(share, std::min(for_bar, kBarColumnsMax)), "  ", share_and_rest);
  }
  if (left(steps.size() + share_and_rest.size()) >= 0) return steps + share_and_rest;
  return left(share_and_rest.size()) >= 0 ? share_and_rest : rest;
}

}  // namespace strata::cli
