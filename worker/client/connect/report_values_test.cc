#include "worker/client/connect/report_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::client {
namespace {

absl::Status Check(const std::string& name, double value = 1) {
  return CheckValues({{name, value}});
}

TEST(ReportValues, AreFiniteNumbersUnderPlainNames) {
  EXPECT_EQ(CheckValues({}), absl::OkStatus());
  EXPECT_EQ(Check("val/bleu-4.cased_2", -1e300), absl::OkStatus());
  EXPECT_EQ(Check(std::string(64, 'x')), absl::OkStatus());
}

TEST(ReportValues, WhatIsWrongIsSaidByName) {
  const std::string rule = ": a name has 1 to 64 letters, digits and characters of \"._-/\"";
  const std::string long_name(65, 'x');
  EXPECT_EQ(Check(""), absl::InvalidArgumentError(absl::StrCat("value \"\"", rule)));
  EXPECT_EQ(Check("a b"), absl::InvalidArgumentError(absl::StrCat("value \"a b\"", rule)));
  EXPECT_EQ(Check("a\n"), absl::InvalidArgumentError(absl::StrCat("value \"a\\n\"", rule)));
  EXPECT_EQ(Check(long_name),
            absl::InvalidArgumentError(absl::StrCat("value \"", long_name, "\"", rule)));
  EXPECT_EQ(Check("bleu", NAN), absl::InvalidArgumentError("value \"bleu\": is NaN"));
  EXPECT_EQ(Check("bleu", -INFINITY), absl::InvalidArgumentError("value \"bleu\": is infinite"));
  EXPECT_EQ(Check("test_loss"), absl::InvalidArgumentError(
                                    "value \"test_loss\": has a field of its own in the report"));
}

TEST(ReportValues, AReportHasAtMost32) {
  std::map<std::string, double> values;
  for (int i = 0; i < 32; ++i) values[absl::StrCat("v", i)] = i;
  EXPECT_EQ(CheckValues(values), absl::OkStatus());
  values["one-more"] = 0;
  EXPECT_EQ(CheckValues(values), absl::InvalidArgumentError("33 values in a report, at most 32"));
}

}  // namespace
}  // namespace strata::client
