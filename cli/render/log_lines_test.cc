#include "cli/render/log_lines.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace strata::cli {

namespace {

proto::LogLines LinesOf(uint32_t rank, const std::string& lines) {
  proto::LogLines of;
  of.mutable_process()->set_rank(rank);
  of.set_lines(lines);
  return of;
}

TEST(TerminalLine, LeavesColoursAndWritesOutWhatElseATerminalWouldObey) {
  EXPECT_EQ(TerminalLine("plain \t caf\xc3\xa9"), "plain \t caf\xc3\xa9");
  EXPECT_EQ(TerminalLine("\x1b[1;31mred\x1b[0m"), "\x1b[1;31mred\x1b[0m\x1b[0m");
  EXPECT_EQ(TerminalLine("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(TerminalLine("\xc2\x9b"
                         "2J\xc2\xa0|"),
            "\\u009b2J\xc2\xa0|");
  EXPECT_EQ(TerminalLine(std::string("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(TerminalLine("\x1b[31"), "\\x1b[31");
}

TEST(PlainLine, HasNoColours) {
  EXPECT_EQ(PlainLine("\x1b[1;31mred\x1b[0m and \x1b[2J \x07"), "red and \\x1b[2J \\x07");
  EXPECT_EQ(PlainLine("10%\r\x1b[32m100%\x1b[0m\r"), "100%");
}

TEST(TerminalLine, OfAProgressBarTheLastStateIsLeft) {
  EXPECT_EQ(TerminalLine("10%\r50%\r100%\r"), "100%");
  EXPECT_EQ(TerminalLine("windows\r"), "windows");
  EXPECT_EQ(TerminalLine("\r"), "");
}

TEST(LogLinesText, SeveralProcessesBearTheirNames) {
  const proto::LogLines rank = LinesOf(3, "a\n\nb\x07\n");
  EXPECT_EQ(LogLinesText(rank, LogLinesForm::kRaw, true), "[3] a\n[3] \n[3] b\x07\n");
  EXPECT_EQ(LogLinesText(rank, LogLinesForm::kTerminal, false), "a\n\nb\\x07\n");
  proto::LogLines aggregator = LinesOf(0, "x\n");
  aggregator.mutable_process()->set_aggregator_node(1);
  EXPECT_EQ(LogLinesText(aggregator, LogLinesForm::kRaw, true), "[aggregator 1] x\n");
  EXPECT_EQ(LogLinesText(aggregator, LogLinesForm::kJson, false),
            "{\"aggregator_node\":1,\"line\":\"x\"}\n");
}

TEST(LogLinesText, JsonTakesAnyBytes) {
  EXPECT_EQ(LogLinesText(LinesOf(3, "\"\xff\x1b\n"), LogLinesForm::kJson, false),
            "{\"rank\":3,\"line\":\"\\\"\xef\xbf\xbd\\u001b\"}\n");
  proto::LogLines failed = LinesOf(2, "");
  failed.set_error("rank 2's log is gone");
  EXPECT_EQ(LogErrorJson(failed), "{\"rank\":2,\"error\":\"rank 2's log is gone\"}\n");
  failed.clear_process();
  EXPECT_EQ(LogErrorJson(failed), "{\"error\":\"rank 2's log is gone\"}\n");
}

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

TEST_F(LogTailTest, FindsItsPlaceAgainWhereTheMiddleIsCutOut) {
  LogTail tail(path_, ""), late(path_, "");
  const std::string line(99, 'x');
  for (int i = 0; i < 500; ++i) Append(line + "\n");
  const std::string first = tail.Read();
  EXPECT_EQ(first.size(), 50'000u);
  for (int i = 0; i < 500; ++i) Append(std::string(99, 'y') + "\n");
  LogCutter cutter({.path = path_, .bytes_max = 64 << 10});
  cutter.Cut(/*last=*/true);
  const LogCut cut = ReadLogCut(path_);
  ASSERT_EQ(cut.head, 32u << 10);
  // The lines after the place, some of which are gone, and the line that says so.
  const std::string more = tail.Read();
  EXPECT_NE(more.find(" bytes are missing here: "), std::string::npos);
  EXPECT_EQ(std::count(more.begin(), more.end(), 'x'), 0);
  EXPECT_GT(std::count(more.begin(), more.end(), 'y'), 28'000);
  Append("last\n");
  EXPECT_EQ(tail.Read(), "last\n");
  EXPECT_EQ(late.Read().size(), std::filesystem::file_size(path_));
}

TEST_F(LogTailTest, WaitsForNoPipe) {
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(LogTail(path_, "").Read(/*all=*/true), "");
}

}  // namespace

}  // namespace strata::cli
