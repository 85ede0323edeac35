#include "cli/render/log_tail.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

class LogTailTest : public testing::Test {
 protected:
  LogTailTest()
      : path_(testing::TempDir() + "/" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".log") {}
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  const std::string path_;
};

TEST_F(LogTailTest, GivesEachWholeLineOnce) {
  LogTail tail(path_, "");
  EXPECT_EQ(tail.Read(), "");
  Append("one\ntw");
  EXPECT_EQ(tail.Read(), "one\n");
  EXPECT_EQ(tail.Read(), "");
  Append("o\nthree\n");
  EXPECT_EQ(tail.Read(), "two\nthree\n");
  Append("last");
  EXPECT_EQ(tail.Read(), "");
  EXPECT_EQ(tail.Read(/*all=*/true), "last\n");
  EXPECT_EQ(tail.Read(/*all=*/true), "");
}

TEST_F(LogTailTest, PutsThePrefixBeforeEachLine) {
  LogTail tail(path_, "rank 3: ");
  Append("one\n\ntwo\n");
  EXPECT_EQ(tail.Read(), "rank 3: one\nrank 3: \nrank 3: two\n");
}

TEST_F(LogTailTest, ReadsALargeFileInPartsAndCutsALineWithoutEnd) {
  LogTail tail(path_, "");
  const std::string line(LogTail::kBytesMax - 1, 'x');
  Append(line + "\n" + line + "yz\n");
  EXPECT_EQ(tail.Read(), line + "\n");
  EXPECT_EQ(tail.Read(), line + "y\n");
  EXPECT_EQ(tail.Read(), "z\n");
}

}  // namespace
}  // namespace strata::cli
