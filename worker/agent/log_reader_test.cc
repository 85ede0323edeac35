#include "worker/agent/log_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

constexpr size_t kPlenty = 64 << 20;

class LogReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    run_dir_ = absl::StrCat(testing::TempDir(), "/log_reader_", getpid());
    std::filesystem::create_directories(run_dir_ + "/logs");
  }
  void TearDown() override { std::filesystem::remove_all(run_dir_); }

  std::string Path() const { return run_dir_ + "/logs/rank0.log"; }
  void Append(const std::string& text) {
    std::ofstream(Path(), std::ios::binary | std::ios::app) << text;
  }
  std::unique_ptr<LogReader> Open(LogReader::Options options = {}) {
    auto reader = LogReader::Open(run_dir_, "rank0.log", options);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  // Returns everything that is there now.
  static std::string All(LogReader* reader, bool last, size_t bytes_max = kPlenty) {
    std::string lines;
    while (true) {
      const auto piece = reader->Read(bytes_max, last);
      EXPECT_TRUE(piece.ok()) << piece.status();
      if (!piece.ok()) return lines;
      EXPECT_LE(piece->lines.size(), bytes_max);
      lines += piece->lines;
      if (piece->at_end) return lines;
    }
  }

  std::string run_dir_;
};

TEST_F(LogReaderTest, AllOfALargeLogComesInPiecesOfWholeLines) {
  std::string text;
  for (int i = 0; i < 200000; ++i) absl::StrAppend(&text, "line ", i, " of many\n");
  Append(text);
  EXPECT_EQ(All(Open().get(), true, LogReader::kShownLineBytesMax), text);
  const auto reader = Open();
  EXPECT_THAT(reader->Read(LogReader::kShownLineBytesMax, true)->lines, EndsWith(" of many\n"));
}

TEST_F(LogReaderTest, TheTailIsTheLastLinesWhereverTheBlocksOfTheFileEnd) {
  std::string text;
  for (int i = 0; i < 50000; ++i) absl::StrAppend(&text, i, "\n");
  Append(text);
  EXPECT_EQ(All(Open({.tail_lines = 2}).get(), true), "49998\n49999\n");
  EXPECT_EQ(All(Open({.tail_lines = 0}).get(), true), "");
  EXPECT_EQ(All(Open({.tail_lines = 50000}).get(), true), text);
  EXPECT_EQ(All(Open({.tail_lines = 49999}).get(), true), text.substr(2));
  EXPECT_EQ(All(Open({.tail_lines = 1000000}).get(), true), text);
  const std::string last = All(Open({.tail_lines = 20000}).get(), true);
  EXPECT_THAT(last, StartsWith("30000\n30001\n"));
  EXPECT_THAT(last, EndsWith("49999\n"));
}

TEST_F(LogReaderTest, ALineWithoutAnEndCountsAsOneOfTheTail) {
  Append("one\ntwo\nthree");
  EXPECT_EQ(All(Open({.tail_lines = 2}).get(), true), "two\nthree\n");
}

TEST_F(LogReaderTest, ALineWithoutAnEndWaitsForItUntilNothingMoreComes) {
  Append("one\ntw");
  const auto reader = Open({.follow = true});
  EXPECT_EQ(All(reader.get(), false), "one\n");
  Append("o\nthr");
  EXPECT_EQ(All(reader.get(), false), "two\n");
  EXPECT_EQ(All(reader.get(), true), "thr\n");
  EXPECT_EQ(All(reader.get(), true), "");
}

TEST_F(LogReaderTest, OfALongLineTheBeginningIsShownAndHowMuchIsLeftOut) {
  Append(std::string(LogReader::kLineBytesMax, 'a') + "\n");
  Append(std::string(300000, 'b') + "\nend\n");
  EXPECT_EQ(All(Open().get(), true, LogReader::kShownLineBytesMax),
            absl::StrCat(std::string(LogReader::kLineBytesMax, 'a'), "\n",
                         std::string(LogReader::kLineBytesMax, 'b'), " [",
                         300000 - LogReader::kLineBytesMax, " more bytes]\nend\n"));
}

TEST_F(LogReaderTest, LinesComeByteForByte) {
  const std::string text("\x00\xff\x1b[31mred\r\n\n\x80\n", 15);
  Append(text);
  EXPECT_EQ(All(Open().get(), true), text);
}

TEST_F(LogReaderTest, OnlyLinesThatMatchAreShown) {
  Append("loss 1\nstep 2\nloss 3\xff\nstep 4\n");
  EXPECT_EQ(All(Open({.grep = "^loss \\d"}).get(), true), "loss 1\nloss 3\xff\n");
  EXPECT_EQ(All(Open({.tail_lines = 2, .grep = "loss"}).get(), true), "loss 3\xff\n");
}

TEST_F(LogReaderTest, APatternThatCannotBeUsedIsRefused) {
  Append("a\n");
  const auto damaged = LogReader::Open(run_dir_, "rank0.log", {.grep = "a("});
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(damaged.status().message()), StartsWith("grep: a(: "));
  const auto longest = LogReader::Open(run_dir_, "rank0.log", {.grep = std::string(1025, 'a')});
  EXPECT_EQ(longest.status().message(), "grep: a pattern of 1025 bytes, which may have 1024");
}

TEST_F(LogReaderTest, APatternThatNothingMatchesHoldsNobodyUp) {
  Append(std::string(3 << 20, '\n'));
  const auto reader = Open({.grep = "x"});
  const auto piece = reader->Read(kPlenty, true);
  EXPECT_EQ(piece->lines, "");
  EXPECT_FALSE(piece->at_end) << "all of it was read at once";
  EXPECT_EQ(All(reader.get(), true), "");
}

TEST_F(LogReaderTest, ALogThatIsTruncatedIsReadFromItsNewBeginning) {
  Append("one\ntwo\nthr");
  const auto reader = Open({.follow = true});
  EXPECT_EQ(All(reader.get(), false), "one\ntwo\n");
  std::filesystem::resize_file(Path(), 0);
  Append("new\n");
  EXPECT_EQ(All(reader.get(), false),
            "thr\n[the log was truncated or replaced, and begins anew]\nnew\n");
}

TEST_F(LogReaderTest, ALogThatIsReplacedIsReadToItsEndAndThenTheNewOne) {
  Append("one\n");
  const auto reader = Open({.follow = true});
  EXPECT_EQ(All(reader.get(), false), "one\n");
  Append("two\n");
  std::filesystem::rename(Path(), Path() + ".1");
  Append("three is longer than before\n");
  EXPECT_EQ(All(reader.get(), false),
            "two\n[the log was truncated or replaced, and begins anew]\n"
            "three is longer than before\n");
  std::filesystem::remove(Path());
  EXPECT_EQ(All(reader.get(), true), "") << "what is only removed does not begin anew";
}

TEST_F(LogReaderTest, TheTailOfAHugeFileWithoutLinesIsLookedForInItsLastPartAlone) {
  Append("begin\n");
  ASSERT_EQ(truncate(Path().c_str(), off_t{10} << 30), 0);
  Append("\nlast\n");
  EXPECT_EQ(All(Open({.tail_lines = 1}).get(), true), "last\n");
  const std::string two = All(Open({.tail_lines = 2}).get(), true);
  EXPECT_THAT(two, StartsWith("[...] "));
  EXPECT_THAT(two, EndsWith(" more bytes]\nlast\n"));
  EXPECT_LE(two.size(), LogReader::kShownLineBytesMax + 5);
}

TEST_F(LogReaderTest, ALogWhoseMiddleIsCutOutIsReadOnAndSaysWhatIsMissing) {
  std::string before, after;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&before, 100000 + i, " abc\n");
  for (int i = 5000; i < 10000; ++i) absl::StrAppend(&after, 100000 + i, " abc\n");
  Append(before);
  const auto reader = Open({.follow = true});
  const auto slow = Open({.follow = true});
  EXPECT_EQ(All(reader.get(), false), before);
  Append(after);
  LogCutter cutter({.path = Path(), .bytes_max = 96 << 10});
  cutter.Cut(/*last=*/true);
  const LogCut cut = ReadLogCut(Path());
  ASSERT_EQ(cut.head, 48u << 10);
  ASSERT_GT(cut.missing, 0u);
  // It had already read most of the cut part.
  const std::string rest = All(reader.get(), false);
  EXPECT_THAT(rest, StartsWith("\n[strata: ")) << "the beginning ends within a line";
  EXPECT_THAT(rest, EndsWith(after.substr(after.size() - 40'000)));
  Append("more\n");
  EXPECT_EQ(All(reader.get(), false), "more\n");
  cutter.Cut(/*last=*/true);
  Append("last\n");
  EXPECT_EQ(All(reader.get(), false), "last\n");
  // The beginning, the line, the end.
  const std::string all = All(slow.get(), true);
  EXPECT_EQ(all.substr(0, 48'000), before.substr(0, 48'000));
  EXPECT_THAT(all,
              testing::HasSubstr(" bytes are missing here: rank_log_bytes of the job is 98304]"));
  EXPECT_THAT(all, EndsWith("109999 abc\nmore\nlast\n"));
  EXPECT_EQ(All(Open({.tail_lines = 2}).get(), true), "more\nlast\n");
}

TEST_F(LogReaderTest, WithoutFollowingNothingIsReadThatIsWrittenLater) {
  Append("a\nb\n");
  const auto reader = Open({.tail_lines = 1});
  Append("c\n");
  EXPECT_EQ(All(reader.get(), true), "b\n");
  EXPECT_EQ(All(Open({.tail_lines = 1}).get(), true), "c\n");
}

TEST_F(LogReaderTest, OfAProgressBarThatIsTooLongTheNewestStateIsShown) {
  std::string bar;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&bar, "\r", i, " of 20000");
  Append(bar + "\nlast\n");
  const std::string lines = All(Open().get(), true);
  EXPECT_THAT(lines, StartsWith("19999 of 20000 ["));
  EXPECT_THAT(lines, EndsWith(" more bytes]\nlast\n"));
  // Its lines are counted correctly.
  EXPECT_EQ(All(Open({.tail_lines = 2}).get(), true), lines);
  EXPECT_EQ(All(Open({.grep = "^19999"}).get(), true), lines.substr(0, lines.size() - 5));
}

TEST_F(LogReaderTest, NoLinkAndNothingButAFileIsRead) {
  const std::string other = run_dir_ + "/secret";
  std::ofstream(other) << "secret\n";
  std::filesystem::create_symlink(other, Path());
  EXPECT_EQ(LogReader::Open(run_dir_, "rank0.log", {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(mkfifo((run_dir_ + "/logs/rank1.log").c_str(), 0600), 0);
  EXPECT_THAT(std::string(LogReader::Open(run_dir_, "rank1.log", {}).status().message()),
              EndsWith("/logs/rank1.log: it is no file"));
  std::filesystem::remove_all(run_dir_ + "/logs");
  std::filesystem::create_directories(run_dir_ + "/elsewhere");
  std::ofstream(run_dir_ + "/elsewhere/rank0.log") << "secret\n";
  std::filesystem::create_directory_symlink(run_dir_ + "/elsewhere", run_dir_ + "/logs");
  EXPECT_EQ(LogReader::Open(run_dir_, "rank0.log", {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LogReaderTest, AMissingLogIsSaidInOneLine) {
  const auto reader = LogReader::Open(run_dir_, "rank0.log", {});
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(reader.status().message(),
            absl::StrCat("cannot read ", Path(), ": No such file or directory"));
}

}  // namespace
}  // namespace strata::worker
