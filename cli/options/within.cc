#include "cli/options/within.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace strata::cli {

CLI::Validator Within(double low, double high) {
  const auto check = [low, high](std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return "";
    return absl::StrFormat("Value %s not in range %g to %g", text, low, high);
  };
  return CLI::Validator(check, absl::StrFormat("FLOAT in [%g - %g]", low, high));
}

}  // namespace strata::cli
