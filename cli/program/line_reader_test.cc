#include "cli/program/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

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
