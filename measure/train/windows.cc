#include "measure/train/windows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::bench {

absl::StatusOr<Windows> ParseWindows(const std::string& metrics) {
  Windows windows;
  windows.has_finite_losses = true;
  for (absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    const auto record =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    auto has_number = [&](const char* name) {
      return record.contains(name) && record[name].is_number();
    };
    if (!record.is_object() || !has_number("samples_per_s") || !has_number("samples")) {
      return absl::InvalidArgumentError(absl::StrCat("not a record of metrics: ", line));
    }
    windows.samples = std::max(windows.samples, record["samples"].get<uint64_t>());
    // What is not finite is written as null.
    if (!has_number("loss")) windows.has_finite_losses = false;
    if (!record.value("final", false)) windows.rates.push_back(record["samples_per_s"]);
  }
  if (windows.rates.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat(windows.rates.size(), " windows of steps, which leaves none after the first"));
  }
  windows.rates.erase(windows.rates.begin());
  return windows;
}

}  // namespace strata::bench
