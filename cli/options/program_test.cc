#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/options/address_options.h"
#include "cli/options/coordinator_address.h"
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

namespace {

TEST(PortRange, IsOnePortOrTwoWithADash) {
  EXPECT_EQ(ParsePortRange("7100")->first, 7100u);
  EXPECT_EQ(ParsePortRange("7100")->last, 0u);
  EXPECT_EQ(ParsePortRange("7100-7119")->first, 7100u);
  EXPECT_EQ(ParsePortRange("7100-7119")->last, 7119u);
  for (const char* bad : {"", "-", "0", "65536", "7100-", "-7100", "7119-7100", "1-65536", "a"}) {
    const auto range = ParsePortRange(bad);
    EXPECT_EQ(range.status(),
              absl::InvalidArgumentError(std::string("--port ") + bad +
                                         ": expected a port or a range such as 7100-7119"));
  }
}

TEST(DaemonAddress, FollowsTheRouteToTheCoordinator) {
  const auto choice = ChooseDaemonAddress({}, "127.0.0.1:7070", {}, absl::ZeroDuration());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->listen, "127.0.0.1");
  EXPECT_EQ(choice->advertise, "127.0.0.1");
  EXPECT_EQ(ChooseDaemonAddress({}, "[::1]:7070", {}, absl::ZeroDuration())->listen, "127.0.0.1");
  EXPECT_EQ(ChooseDaemonAddress({}, "0.0.0.0:7070", {}, absl::ZeroDuration())->listen, "127.0.0.1");
}

TEST(DaemonAddress, ACoordinatorThatCannotBeFoundIsNamed) {
  const auto unknown =
      ChooseDaemonAddress({}, "no-such-host.invalid:7070", {}, absl::Milliseconds(300));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unknown.status().message()),
              ::testing::StartsWith("coordinator at no-such-host.invalid:7070 cannot be reached "
                                    "(tried for 300ms): host \"no-such-host.invalid\""));
  const auto ipv6 = ChooseDaemonAddress({}, "[fe80::1]:7070", {}, absl::Hours(1));
  EXPECT_EQ(ipv6.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CoordinatorListen, IsGivenByAddressOrByInterfaceAndPort) {
  EXPECT_EQ(*ChooseListenAddress({}), DefaultCoordinator());
  EXPECT_EQ(*ChooseListenAddress({.address = "10.0.0.1:80", .address_given = true}), "10.0.0.1:80");
  EXPECT_EQ(*ChooseListenAddress({.port = 99}), "127.0.0.1:99");
  EXPECT_EQ(*ChooseListenAddress({.interface = "127.0.0.0/8", .port = 99}), "127.0.0.1:99");
  EXPECT_EQ(*ChooseListenAddress({.interface = "127.0.0.0/8"}), "127.0.0.1:7070");
  EXPECT_EQ(ChooseListenAddress({.address_given = true, .interface = "lo"}).status().message(),
            "--listen and --interface exclude each other: --listen names host and port");
  EXPECT_EQ(ChooseListenAddress({.address_given = true, .port = 1}).status().message(),
            "--listen and --port exclude each other: --listen names host and port");
  EXPECT_EQ(ChooseListenAddress({.interface = "no-such-card"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CoordinatorListen, LoopbackIsReachedByNoOtherHost) {
  EXPECT_EQ(AddressesOfCoordinator("127.0.0.1", "7070"), "");
}

TEST(CoordinatorAddress, APortASocketAndSeveralPortsAreTaken) {
  for (const char* good : {"a:7070", "[::1]:7070", "unix:/run/a,b", "a:7070,b:7070,10.0.0.3:1"}) {
    EXPECT_EQ(CheckCoordinatorAddress(good), "") << good;
  }
}

TEST(CoordinatorAddress, WhatIsWrongIsNamed) {
  EXPECT_EQ(CheckCoordinatorAddress("a"), "expected HOST:PORT or unix:/PATH, not \"a\"");
  EXPECT_EQ(CheckCoordinatorAddress(""), "expected HOST:PORT or unix:/PATH, not \"\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,b"), "expected HOST:PORT, not \"b\"");
  for (const char* bad : {"a:1,", ",a:1", "a:1,,b:1"}) {
    EXPECT_EQ(CheckCoordinatorAddress(bad), absl::StrCat("expected HOST:PORT,HOST:PORT, not \"",
                                                         bad, "\": one of its addresses is empty"));
  }
  EXPECT_EQ(CheckCoordinatorAddress("a:1, b:1"), "expected HOST:PORT, not \" b:1\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,unix:/b"), "expected HOST:PORT, not \"unix:/b\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,b:2,a:1"), "a:1 is named twice");
  std::string many = "h:1";
  for (int port = 2; port <= 17; ++port) absl::StrAppend(&many, ",h:", port);
  EXPECT_EQ(CheckCoordinatorAddress(many), "17 addresses are more than 16");
}

TEST(HostsAndPorts, AreOneOrSeveralWithoutASocket) {
  for (const char* good : {"a:2379", "a:2379,b:2379", "[::1]:1,10.0.0.3:1"}) {
    EXPECT_EQ(CheckHostsAndPorts(good), "") << good;
  }
  EXPECT_EQ(CheckHostsAndPorts("unix:/run/a"), "expected HOST:PORT, not \"unix:/run/a\"");
  EXPECT_EQ(CheckHostsAndPorts(""), "expected HOST:PORT, not \"\"");
  EXPECT_EQ(CheckHostsAndPorts("a:1,a:1"), "a:1 is named twice");
  EXPECT_EQ(CheckHostsAndPorts("a:1,b"), "expected HOST:PORT, not \"b\"");
}

}  // namespace

}  // namespace strata::cli
