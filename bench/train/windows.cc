#include "bench/train/windows.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::bench {

absl::StatusOr<std::vector<double>> RatesOf(const std::string& metrics) {
  std::vector<double> rates;
  for (absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    const auto record =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("samples_per_s") ||
        !record["samples_per_s"].is_number()) {
      return absl::InvalidArgumentError(absl::StrCat("not a record of metrics: ", line));
    }
    if (!record.value("final", false)) rates.push_back(record["samples_per_s"]);
  }
  if (rates.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat(rates.size(), " windows of steps, which leaves none after the first"));
  }
  rates.erase(rates.begin());
  return rates;
}

}  // namespace strata::bench
