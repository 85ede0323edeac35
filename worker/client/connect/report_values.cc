#include "worker/client/connect/report_values.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "worker/client/report.h"

namespace strata::client {
namespace {

constexpr absl::string_view kOtherCharacters = "._-/";

bool MayBeInName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kOtherCharacters.find(c) != absl::string_view::npos;
}

}  // namespace

absl::Status CheckValues(const std::map<std::string, double>& values) {
  if (values.size() > kReportValuesMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d values in a report, at most %d", values.size(), kReportValuesMax));
  }
  for (const auto& [name, value] : values) {
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "value \"%s\": %s", absl::CEscape(name).substr(0, 2 * kValueNameMax), why));
    };
    if (name.empty() || name.size() > kValueNameMax ||
        !std::all_of(name.begin(), name.end(), MayBeInName)) {
      return refuse("a name has 1 to 64 letters, digits and characters of \"._-/\"");
    }
    if (name == "test_accuracy" || name == "test_loss") {
      return refuse("has a field of its own in the report");
    }
    if (!std::isfinite(value)) return refuse(std::isnan(value) ? "is NaN" : "is infinite");
  }
  return absl::OkStatus();
}

void CopyReport(const Report& report, proto::RankReport* out) {
  out->set_first_step(report.first_step);
  out->set_end_step(report.end_step);
  out->set_samples(report.samples);
  out->set_loss_sum(report.loss_sum);
  out->set_wall_s(report.wall_s);
  if (report.has_test) {
    if (!std::isnan(report.test_accuracy)) out->set_test_accuracy(report.test_accuracy);
    if (!std::isnan(report.test_loss)) out->set_test_loss(report.test_loss);
  }
  out->set_final(report.final);
  out->mutable_values()->insert(report.values.begin(), report.values.end());
}

}  // namespace strata::client
