#include "cli/render/bar/progress_bar.h"

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

constexpr char kRest[] = "12,345 samples/s  ETA 1:23";  // 26 columns

TEST(ProgressBar, TakesWhatTheRestLeavesUpToThirtyColumns) {
  EXPECT_EQ(WithBar(234, 1170, kRest, 120),
            "step 234/1170  [#####-----------------------]  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 79),
            "step 234/1170  [#####-----------------------]  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 65),
            "step 234/1170  [##------------]  20 %  12,345 samples/s  ETA 1:23");
}

TEST(ProgressBar, NoLineButABareRestIsWiderThanTheTerminal) {
  for (int columns = 26; columns < 130; ++columns) {
    EXPECT_LE(WithBar(234, 1170, kRest, columns).size(), static_cast<size_t>(columns));
  }
}

TEST(ProgressBar, FallsAwayFirstThenTheStepThenTheShare) {
  EXPECT_EQ(WithBar(234, 1170, kRest, 59),
            "step 234/1170  [#-------]  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 58), "step 234/1170  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 47), "step 234/1170  20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 46), "20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 40), "20 %  12,345 samples/s  ETA 1:23");
  EXPECT_EQ(WithBar(234, 1170, kRest, 31), kRest);
  EXPECT_EQ(WithBar(234, 1170, kRest, 10), kRest);
}

TEST(ProgressBar, IsFullWithTheLastStepOnly) {
  const std::string empty(28, '-'), full(28, '#');
  EXPECT_EQ(WithBar(0, 1000, "x", 80), "step 0/1000  [" + empty + "]  0 %  x");
  EXPECT_EQ(WithBar(999, 1000, "x", 80), "step 999/1000  [" + std::string(27, '#') + "-]  99 %  x");
  EXPECT_EQ(WithBar(1000, 1000, "x", 80), "step 1000/1000  [" + full + "]  100 %  x");
  EXPECT_EQ(WithBar(1001, 1000, "x", 80), "step 1001/1000  [" + full + "]  100 %  x");
}

TEST(ProgressBar, AJobWithoutAKnownEndHasNone) { EXPECT_EQ(WithBar(5, 0, "x", 80), "x"); }

TEST(ProgressBar, DumbTerminalsAndThoseThatWantNoColorAreShownNone) {
  EXPECT_TRUE(ShowsBars({}));
  EXPECT_TRUE(ShowsBars({{"TERM", "xterm-256color"}, {"NO_COLOR", ""}}));
  EXPECT_FALSE(ShowsBars({{"TERM", "dumb"}}));
  EXPECT_FALSE(ShowsBars({{"TERM", "xterm"}, {"NO_COLOR", "1"}}));
}

}  // namespace
}  // namespace strata::cli
