#include "compare/report/charts.h"

#include "compare/figure_text.h"
#include "compare/report/drawing.h"
#include "gtest/gtest.h"

namespace strata::compare {

namespace {

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool Has(const std::string& text, const std::string& part) { return Count(text, part) > 0; }

std::string Plain(double value) { return std::to_string(int(value)); }

// x from 0 to 10 at pixels 76 to 700, y from 0 to 100 at 340 to 44.
LineChart TwoLines() {
  LineChart chart{"Lines", "steps", Plain, "height", Plain, {}};
  chart.modes.push_back({"rising", {{0, 0, 0, 0}, {10, 50, 0, 100}}, {}});
  chart.modes.push_back({"failed", {}, {{"failed, seed 1", {{0, 100}, {5, 50}}}}});
  return chart;
}

TEST(LineChart, DrawsMeansBandsAndFailedRunsWhereTheyAre) {
  const std::string svg = Svg(TwoLines());
  EXPECT_TRUE(Has(svg,
                  "<polyline class=\"line m0\" stroke-dasharray=\"\" "
                  "points=\"76.0,340.0 700.0,192.0\"/>"))
      << svg;
  EXPECT_TRUE(Has(svg,
                  "<polygon class=\"area m0\" points=\"76.0,340.0 700.0,44.0 700.0,340.0 "
                  "76.0,340.0\"/>"));
  EXPECT_TRUE(Has(svg,
                  "<polyline class=\"line thin m1\" stroke-dasharray=\"3, 3\" "
                  "points=\"76.0,44.0 388.0,192.0\"/>"));
  for (const char* text : {">Lines</text>", ">steps</text>", ">height</text>", ">rising</text>",
                           ">failed</text>", ">10</text>", ">100</text>"}) {
    EXPECT_TRUE(Has(svg, text)) << text;
  }
}

TEST(LineChart, AModeOfOnePointIsADot) {
  LineChart chart = TwoLines();
  chart.modes.push_back({"once", {{10, 50, 50, 50}}, {}});
  const std::string svg = Svg(chart);
  EXPECT_TRUE(Has(svg, "<circle class=\"bar m2\" cx=\"700.0\" cy=\"192.0\" r=\"3.5\"/>")) << svg;
  EXPECT_EQ(Count(svg, "<circle"), 1);
}

TEST(LineChart, LongNamesAreBrokenInTheLegend) {
  LineChart chart = TwoLines();
  chart.modes[0].name = "sync+" + std::string(84, 'a') + "+b=1 cc";
  chart.modes[1].name = std::string(200, 'b');
  const std::string svg = Svg(chart);
  // 95 letters of 7 pixels have room to the right of 50.
  EXPECT_TRUE(Has(svg, ">sync+" + std::string(84, 'a') + "+b=1 </text>")) << svg;
  EXPECT_TRUE(Has(svg, ">cc</text>"));
  EXPECT_EQ(Count(svg, ">" + std::string(95, 'b') + "</text>"), 2);
  EXPECT_TRUE(Has(svg, ">" + std::string(10, 'b') + "</text>"));
  EXPECT_EQ(Count(svg, "<polyline class=\"line m0\""), 2);  // one is of the legend
}

TEST(LineChart, TextCannotBecomeMarkup) {
  LineChart chart = TwoLines();
  chart.modes[0].name = "</text><script>\"a\"&b\n\xff";
  const std::string svg = Svg(chart);
  EXPECT_TRUE(Has(svg,
                  ">&lt;/text&gt;&lt;script&gt;&quot;a&quot;&amp;b?"
                  "?</text>"))
      << svg;
  EXPECT_FALSE(Has(svg, "<script"));
}

TEST(LineChart, WithoutPointsItHasAxesOnly) {
  LineChart chart = TwoLines();
  chart.modes = {{"none", {}, {}}, {"empty", {}, {{"seed 1", {}}}}};
  const std::string svg = Svg(chart);
  EXPECT_EQ(Count(svg, "<polyline"), 2);  // of the legend
  EXPECT_FALSE(Has(svg, "nan"));
  EXPECT_FALSE(Has(svg, "inf"));
}

TEST(BarChart, DrawsBarsIntervalsAndFigures) {
  // 0 to 10 at pixels 170 to 610; rows of 30 from 44.
  BarChart chart{"Bars", "bytes", Plain, {}};
  chart.modes.push_back({"half", 5, Interval{-1, 10}, "5 B"});
  chart.modes.push_back({"none", std::nullopt, std::nullopt, "failed"});
  const std::string svg = Svg(chart);
  EXPECT_TRUE(Has(svg,
                  "<rect class=\"bar m0\" x=\"170.0\" y=\"50.0\" width=\"220.0\" "
                  "height=\"18.0\"/>"))
      << svg;
  EXPECT_EQ(Count(svg, "class=\"bar"), 1);
  // The part below 0 is cut off.
  EXPECT_TRUE(Has(svg, "x1=\"170.0\" y1=\"59.0\" x2=\"610.0\" y2=\"59.0\""));
  EXPECT_TRUE(Has(svg, ">5 B</text>"));
  EXPECT_TRUE(
      Has(svg, "<text class=\"muted\" x=\"176.0\" y=\"93.0\" text-anchor=\"start\">failed"));
}

TEST(BarChart, LongNamesKeepBothEnds) {
  BarChart chart{"Bars", "bytes", Plain, {}};
  chart.modes.push_back({"sync+data.batch_per_rank=256", 5, std::nullopt, "5 B"});
  chart.modes.push_back({"sync+data.batch_per_rank=512", 5, std::nullopt, "5 B"});
  const std::string svg = Svg(chart);
  EXPECT_TRUE(Has(svg, ">sync+data...._rank=256</text>")) << svg;
  EXPECT_TRUE(Has(svg, ">sync+data...._rank=512</text>"));
}

TEST(BarChart, AnIntervalMuchLongerThanTheBarsIsCutOff) {
  BarChart chart{"Bars", "bytes", Plain, {}};
  chart.modes.push_back({"wide", 5, Interval{2, 1000}, "5 B"});
  const std::string svg = Svg(chart);
  EXPECT_TRUE(Has(svg, "x1=\"258.0\" y1=\"59.0\" x2=\"610.0\" y2=\"59.0\"")) << svg;  // 2 to 10
  EXPECT_EQ(Count(svg, "y1=\"54.0\""), 1);  // an end at 2 only
  EXPECT_TRUE(Has(svg, "x=\"616.0\" y=\"63.0\" text-anchor=\"start\">5 B"));
}

TEST(HistogramChart, DrawsEachModesShares) {
  HistogramChart chart{"Bins", "staleness", "share", {}};
  chart.modes.push_back({"a", {3, 1, 0, 0}});
  chart.modes.push_back({"b", {0, 0, 0, 0}});
  const std::string svg = Svg(chart);
  EXPECT_EQ(Count(svg, "class=\"bar"), 2);
  EXPECT_TRUE(Has(svg, "height=\"222.0\""));  // 3/4 of 296
  EXPECT_TRUE(Has(svg, "height=\"74.0\""));
  EXPECT_FALSE(Has(svg, "nan"));
}

TEST(BinNames, EndAtTheLastThatIsUsed) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(BinNames({{"a", {3, 1, 0, 0}}, {"b", {1}}}), (Names{"0", "1"}));
  EXPECT_EQ(BinNames({{"a", {3, 1, 0, 2}}}), (Names{"0", "1", "2", "3+"}));
  EXPECT_EQ(BinNames({{"a", {3}}}), (Names{"0"}));
  EXPECT_TRUE(BinNames({{"a", {}}, {"b", {0, 0}}}).empty());
}

void ExpectTicks(const Scale& scale, const std::vector<double>& expected) {
  ASSERT_EQ(scale.ticks.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(scale.ticks[i], expected[i], 1e-12);
}

TEST(RoundScale, EndsAtRoundNumbersAroundTheValues) {
  const Scale scale = RoundScale(0.42, 0.887, 5, 0, 100);
  EXPECT_DOUBLE_EQ(scale.low, 0.4);
  EXPECT_DOUBLE_EQ(scale.high, 0.9);
  ExpectTicks(scale, {0.4, 0.5, 0.6, 0.7, 0.8, 0.9});
  ExpectTicks(RoundScale(0, 39.2, 5, 0, 1), {0, 10, 20, 30, 40});
  ExpectTicks(RoundScale(0, 256000, 6, 0, 1), {0, 50000, 100000, 150000, 200000, 250000, 300000});
  ExpectTicks(RoundScale(-0.3, 0.25, 4, 0, 1), {-0.4, -0.2, 0, 0.2, 0.4});
}

TEST(RoundScale, RoundEndsStay) {
  ExpectTicks(RoundScale(0, 1, 5, 0, 1), {0, 0.2, 0.4, 0.6, 0.8, 1});
}

TEST(RoundScale, EqualValuesHaveRoomAroundThem) {
  const Scale scale = RoundScale(0, 0, 4, 0, 1);
  EXPECT_EQ(scale.low, 0);
  EXPECT_EQ(scale.high, 1);
  EXPECT_LE(RoundScale(-5, -5, 4, 0, 1).low, -5);
  EXPECT_GT(RoundScale(5, 5, 4, 0, 1).high, 5);
}

TEST(Scale, PixelsMayRunEitherWay) {
  const Scale up = RoundScale(0, 10, 5, 300, 100);
  EXPECT_EQ(up.Pixel(0), 300);
  EXPECT_EQ(up.Pixel(10), 100);
  EXPECT_EQ(up.Pixel(2.5), 250);
}

}  // namespace

}  // namespace strata::compare
