#include "cli/web/metric_text.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::cli::metrics {
namespace {

constexpr Family kNumber{"number", Kind::kGauge, "", Detail::kJob, "A number."};
constexpr Family kBytes{"sent_bytes", Kind::kCounter, "bytes", Detail::kShard, "Bytes sent."};
constexpr Family kFine{"fine", Kind::kGauge, "", Detail::kRank, "A rank's."};

TEST(MetricTextTest, ACounterHasItsUnitInItsNameAndTotalOnItsSamplesAlone) {
  MetricText text;
  text.Add(kBytes, Label("shard", "0"), uint64_t{18446744073709551615u});
  EXPECT_EQ(text.Write(),
            "# TYPE sent_bytes counter\n"
            "# UNIT sent_bytes bytes\n"
            "# HELP sent_bytes Bytes sent.\n"
            "sent_bytes_total{shard=\"0\"} 18446744073709551615\n"
            "# TYPE strata_series_left_out gauge\n"
            "# HELP strata_series_left_out Series that this scrape lacks, as it would have too "
            "many; the finest go first.\n"
            "strata_series_left_out 0\n"
            "# EOF\n");
}

TEST(MetricTextTest, NumbersThatAreNotFiniteAreWrittenAsTheFormatHasThem) {
  MetricText text;
  text.Add(kNumber, Label("i", "0"), std::numeric_limits<double>::quiet_NaN());
  text.Add(kNumber, Label("i", "1"), std::numeric_limits<double>::infinity());
  text.Add(kNumber, Label("i", "2"), -std::numeric_limits<double>::infinity());
  text.Add(kNumber, Label("i", "3"), 1e300);
  const std::string all = text.Write();
  EXPECT_NE(all.find("{i=\"0\"} NaN\n"), std::string::npos);
  EXPECT_NE(all.find("{i=\"1\"} +Inf\n"), std::string::npos);
  EXPECT_NE(all.find("{i=\"2\"} -Inf\n"), std::string::npos);
  EXPECT_NE(all.find("{i=\"3\"} 1e+300\n"), std::string::npos);
}

TEST(MetricTextTest, ALabelIsEscaped) {
  EXPECT_EQ(Label("name", "a\"b\\c\nd"), "name=\"a\\\"b\\\\c\\nd\"");
  EXPECT_EQ(Label("name", "} 1\nup 2"), "name=\"} 1\\nup 2\"");
}

TEST(MetricTextTest, WhatIsNotUtf8OrCannotBeSeenIsReplaced) {
  EXPECT_EQ(Label("name", "a\xFF z"), "name=\"a\xEF\xBF\xBD z\"");
  EXPECT_EQ(Label("name", std::string("\0\x1B\x7F", 3)),
            "name=\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  // Longer than needed, a surrogate, beyond the last character, cut.
  EXPECT_EQ(Label("n", "\xC0\xAF"), "n=\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Label("n", "\xED\xA0\x80"), "n=\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Label("n", "\xF4\x90\x80\x80").size(), 4u + 4 * 3);
  EXPECT_EQ(Label("n", "\xE2\x82"), "n=\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(Label("n", "\xE2\x82\xAC \xF0\x9F\x98\x80"), "n=\"\xE2\x82\xAC \xF0\x9F\x98\x80\"");
}

TEST(MetricTextTest, ALongNameIsCutBetweenCharacters) {
  EXPECT_EQ(Label("n", std::string(1000, 'a')), absl::StrCat("n=\"", std::string(128, 'a'), "\""));
  EXPECT_EQ(Label("n", std::string(127, 'a') + "\xC3\xA9"),
            absl::StrCat("n=\"", std::string(127, 'a'), "\""));
}

TEST(MetricTextTest, OfTwoSeriesWithEqualLabelsTheFirstCountsAndTheOtherIsTold) {
  MetricText text;
  text.Add(kNumber, Label("name", std::string(200, 'a') + "1"), 1.5);
  text.Add(kNumber, Label("name", std::string(200, 'a') + "2"), 2.5);
  const std::string all = text.Write();
  EXPECT_NE(all.find("\"} 1.5\n"), std::string::npos);
  EXPECT_EQ(all.find("\"} 2.5\n"), std::string::npos);
  EXPECT_NE(all.find("strata_series_left_out 1\n"), std::string::npos);
}

TEST(MetricTextTest, WhereNotAllHaveRoomTheFinestFamilyGoesWholeAndIsCounted) {
  MetricText text(/*series_max=*/5);
  for (uint64_t i = 0; i < 3; ++i) text.Add(kFine, Label("rank", absl::StrCat(i)), i);
  for (uint64_t i = 0; i < 2; ++i) text.Add(kNumber, Label("job", absl::StrCat(i)), i);
  const std::string all = text.Write();
  EXPECT_EQ(all.find("fine{"), std::string::npos);
  EXPECT_NE(all.find("number{job=\"1\"} 1\n"), std::string::npos);
  EXPECT_NE(all.find("strata_series_left_out 3\n"), std::string::npos);
}

}  // namespace
}  // namespace strata::cli::metrics
