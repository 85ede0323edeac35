#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "cli/options/line_reader.h"
#include "cli/options/terminal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

using namespace std::string_literals;

// Returns what `write` writes to a file.
template <typename Write>
std::string Written(Write write) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  write(out);
  std::fclose(out);
  std::string written(text, size);
  std::free(text);
  return written;
}

TEST(Terminal, WhatATerminalObeysIsWrittenOut) {
  EXPECT_EQ(Escaped("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(Escaped("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(Escaped("a\0b"s), "a\\x00b");
  EXPECT_EQ(Escaped("\xc2\x9b"), "\\u009b") << "CSI of C1";
  EXPECT_EQ(Escaped("\x9b"), "\\x9b") << "no UTF-8";
  EXPECT_EQ(Escaped("\xe2\x80\xae"), "\\u202e") << "text from right to left";
  EXPECT_EQ(Escaped("\xf3\xa0\x81\x81"), "\\U000e0041") << "a tag";
  EXPECT_EQ(Escaped("caf\xc3\xa9 \xe6\x96\x87 \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe6\x96\x87 \xf0\x9f\x98\x80");
}

TEST(Terminal, WhatIsNoUtf8IsWrittenOutByteByByte) {
  EXPECT_EQ(Escaped("\xc0\x8a"), "\\xc0\\x8a") << "an overlong line break";
  EXPECT_EQ(Escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Escaped("\xe2\x82"), "\\xe2\\x82") << "cut off";
  EXPECT_EQ(Escaped("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "beyond Unicode";
}

TEST(Terminal, TextOfLinesKeepsThem) {
  EXPECT_EQ(EscapedLines("a\tb\n\x1b[0m\r\n"), "a\tb\n\\x1b[0m\\r\n");
}

TEST(Terminal, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(EscapedStart("abc", 3), "abc");
  EXPECT_EQ(EscapedStart("ab\xc3\xa9", 3), "ab");
  EXPECT_EQ(EscapedStart("\xc3\xa9", 2), "\xc3\xa9");
}

TEST(Terminal, AnArgumentForgesNoLineAndANulEndsNone) {
  const std::string forged = "x\njob 9 (fine): finished\0 hidden"s;
  EXPECT_EQ(Written([&](std::FILE* out) { PrintF(out, "job %d: %s\n", 7, forged); }),
            "job 7: x\\njob 9 (fine): finished\\x00 hidden\n");
  EXPECT_EQ(Written([&](std::FILE* out) { PrintText(out, "a\0\x1b\nb\n"s); }), "a\\x00\\x1b\nb\n");
  EXPECT_EQ(Written([&](std::FILE* out) { EXPECT_TRUE(WriteBytes(out, "a\0\x1b"s)); }), "a\0\x1b"s);
}

TEST(Terminal, JsonStaysJson) {
  EXPECT_EQ(
      Written([](std::FILE* out) { PrintJson(out, "{\"a\":\"\xe2\x80\xae\xf3\xa0\x81\x81\"}\n"); }),
      "{\"a\":\"\\u202e\\udb40\\udc41\"}\n");
  EXPECT_EQ(Written([](std::FILE* out) { PrintJson(out, "{\"a\":\"\xff\"}"); }),
            "{\"a\":\"\\ufffd\"}");
}

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

class LineReaderTest : public testing::Test {
 protected:
  LineReaderTest() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_.emplace(UniqueFd(ends[0]));
    writer_ = UniqueFd(ends[1]);
  }
  void Write(const std::string& text) {
    ASSERT_EQ(write(writer_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  std::optional<LineReader> reader_;
  UniqueFd writer_;
};

TEST_F(LineReaderTest, ReturnsWholeLinesAndKeepsTheRest) {
  Write("one\n\ntw");
  EXPECT_THAT(reader_->Read(), Optional(ElementsAre("one", "")));
  EXPECT_THAT(reader_->Read(), Optional(IsEmpty())) << "nothing has come since";
  Write("o\n");
  EXPECT_THAT(reader_->Read(), Optional(ElementsAre("two")));
}

TEST_F(LineReaderTest, AnUnfinishedLastLineCountsAndThenItHasEnded) {
  Write("last");
  EXPECT_THAT(reader_->Read(), Optional(IsEmpty()));
  writer_.Reset();
  EXPECT_THAT(reader_->Read(), Optional(ElementsAre("last")));
  EXPECT_EQ(reader_->Read(), std::nullopt);
  EXPECT_EQ(reader_->Read(), std::nullopt);
}

TEST_F(LineReaderTest, ALineWithoutEndIsCutAtTheLimit) {
  const std::string part(4096, 'x');
  size_t returned = 0;
  for (size_t written = 0; written <= LineReader::kLineBytesMax; written += part.size()) {
    Write(part);
    auto lines = reader_->Read();
    ASSERT_TRUE(lines.has_value());
    for (const std::string& line : *lines) returned += line.size();
  }
  EXPECT_EQ(returned, LineReader::kLineBytesMax + part.size());
}

}  // namespace

}  // namespace strata::cli
