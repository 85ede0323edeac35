#include "compare/figure_text.h"

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

TEST(FigureText, HasDigitsThatCountAndUnits) {
  EXPECT_EQ(PercentText(0.88126, 2), "88.13 %");
  EXPECT_EQ(PercentText(Interval{0.879, 0.8836}, 2), "87.90 to 88.36");
  EXPECT_EQ(PercentText(Interval{-0.84, 1.81}, 2), "0.00 to 100.00");
  EXPECT_EQ(PointsText(0.00123), "+0.12");
  EXPECT_EQ(PointsText(-0.014), "-1.40");
  EXPECT_EQ(PointsText(-1e-9), "+0.00");
  EXPECT_EQ(PointsText(Interval{-0.0031, 0.0007}), "-0.31 to +0.07");
  EXPECT_EQ(RatioText(1.8249), "1.82");
  EXPECT_EQ(RatioText(12.44), "12.4");
  EXPECT_EQ(RatioText(Interval{1.607, 2.051}), "1.61 to 2.05");
  EXPECT_EQ(SecondsText(12.34), "12.3 s");
  EXPECT_EQ(SecondsText(0.0123456), "0.0123 s");
  EXPECT_EQ(SecondsText(0.5), "0.500 s");
  EXPECT_EQ(SecondsText(1234.5), "1234 s");
  EXPECT_EQ(SecondsText(0), "0.000 s");
  EXPECT_EQ(SecondsText(Interval{9.5, 12.84}), "9.50 to 12.8");
  EXPECT_EQ(CountText(940), "940");
  EXPECT_EQ(CountText(61706), "61.7 k");
  EXPECT_EQ(CountText(1.234e6), "1.23 M");
  EXPECT_EQ(BytesText(940), "940 B");
  EXPECT_EQ(BytesText(999999), "1.00 MB");
  EXPECT_EQ(BytesText(123e9), "123 GB");
}

TEST(TargetText, SaysWhereTheTargetComesFrom) {
  Analysis analysis;
  EXPECT_EQ(TargetText(analysis), "");
  analysis.target_accuracy = 0.871;
  analysis.target_mode = "async";
  EXPECT_EQ(TargetText(analysis), "87.1 % (1 point below the lowest mean final accuracy, async's)");
  ModeFigures lost;
  lost.final_accuracy = Estimate{0.1, 1, {}};
  analysis.modes = {lost};
  EXPECT_EQ(TargetText(analysis),
            "87.1 % (1 point below the lowest mean final accuracy, async's, without modes more "
            "than 10 points below the best)");
  analysis.target_is_given = true;
  EXPECT_EQ(TargetText(analysis), "87.1 % (as given)");
}

TEST(FigureText, AModesNameAndItsSettingsAreApart) {
  const ModeParts plain = PartsOfMode("lazy:ssp(3)");
  EXPECT_EQ(plain.name, "lazy:ssp(3)");
  EXPECT_TRUE(plain.settings.empty());
  const ModeParts parts = PartsOfMode("sync+schedule={base_lr: 1 a+b: 2}+ranks=1e+2");
  EXPECT_EQ(parts.name, "sync");
  EXPECT_EQ(parts.settings,
            (std::vector<std::string>{"schedule={base_lr: 1 a+b: 2}", "ranks=1e+2"}));
}

}  // namespace
}  // namespace strata::compare
