#include "cli/render/logs/log_lines.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strata::cli
