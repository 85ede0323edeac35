#include "cli/cluster/rank_output.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

class RankOutputTest : public testing::Test {
 protected:
  RankOutputTest()
      : dir_(testing::TempDir() + "/" +
             testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(dir_ + "/logs");
  }
  void Print(uint32_t rank, const std::string& text) {
    std::ofstream(absl::StrCat(dir_, "/logs/rank", rank, ".log"), std::ios::app) << text;
  }
  void Show(const std::string& lines) {
    const absl::MutexLock lock(&mutex_);
    shown_ += lines;
  }
  std::string ShownAfter(const std::string& last) {
    const absl::MutexLock lock(&mutex_);
    const auto ends = [&] { return shown_.ends_with(last); };
    mutex_.AwaitWithTimeout(absl::Condition(&ends), absl::Seconds(60));
    return shown_;
  }

  const std::string dir_;
  absl::Mutex mutex_;
  std::string shown_;
};

TEST_F(RankOutputTest, Rank0IsShownAsItPrintsAndItsLastLineInTheEnd) {
  RankOutput output;
  ASSERT_EQ(output.Open(ParseRankOutput("")), absl::OkStatus());
  output.Begin(dir_, 2, [this](const std::string& lines) { Show(lines); });
  Print(0, "one\n");
  Print(1, "not this\n");
  EXPECT_EQ(ShownAfter("one\n"), "one\n");
  Print(0, "two");
  output.End();
  EXPECT_EQ(shown_, "one\ntwo\n");
}

TEST_F(RankOutputTest, AllRanksBearTheirNumbers) {
  RankOutput output;
  ASSERT_EQ(output.Open(ParseRankOutput("all")), absl::OkStatus());
  Print(0, "a\n");
  Print(1, "b\nc\n");
  output.Begin(dir_, 2, [this](const std::string& lines) { Show(lines); });
  output.End();
  EXPECT_EQ(shown_, "[0] a\n[1] b\n[1] c\n");
}

TEST_F(RankOutputTest, AFileTakesWhatAllRanksPrint) {
  const std::string file = dir_ + "/all.log";
  {
    RankOutput output;
    ASSERT_EQ(output.Open(ParseRankOutput(file)), absl::OkStatus());
    Print(0, "a\n");
    output.Begin(dir_, 1, [this](const std::string& lines) { Show(lines); });
  }
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_EQ(text, "[0] a");
  EXPECT_EQ(shown_, "");
  RankOutput output;
  EXPECT_EQ(output.Open(ParseRankOutput("/nowhere/all.log")),
            absl::InvalidArgumentError("--log /nowhere/all.log: cannot be written"));
}

TEST_F(RankOutputTest, NothingIsShownWhereNothingIsWanted) {
  RankOutput output;
  ASSERT_EQ(output.Open(ParseRankOutput("none")), absl::OkStatus());
  Print(0, "a\n");
  output.Begin(dir_, 1, [this](const std::string& lines) { Show(lines); });
  output.End();
  EXPECT_EQ(shown_, "");
}

}  // namespace
}  // namespace strata::cli
