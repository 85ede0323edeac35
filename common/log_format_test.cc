#include "common/log_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace strata {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

class LogFormatTest : public testing::Test {
 protected:
  void TearDown() override { SetLogFormat(LogFormat::kText); }

  // Returns the line that a message becomes.
  static std::string Written(const std::string& message) {
    CaptureStderr();
    Log(LogLevel::kInfo, message);
    return GetCapturedStderr();
  }
};

absl::Time SomeTime() { return absl::FromUnixMillis(1'795'773'600'123); }

TEST_F(LogFormatTest, ALineIsAnObjectOfTimeLevelSourceAndMessageInThisOrder) {
  EXPECT_EQ(JsonLogLine(SomeTime(), LogLevel::kInfo, "worker w2", "job 7: finished"),
            "{\"time\":\"2026-11-27T10:00:00.123Z\",\"level\":\"info\",\"source\":\"worker w2\","
            "\"message\":\"job 7: finished\"}");
}

TEST_F(LogFormatTest, LevelsHaveTheNamesOfTheOption) {
  const auto level = [](LogLevel of) {
    return nlohmann::json::parse(JsonLogLine(SomeTime(), of, "s", "m"))["level"];
  };
  EXPECT_EQ(level(LogLevel::kDebug), "debug");
  EXPECT_EQ(level(LogLevel::kInfo), "info");
  EXPECT_EQ(level(LogLevel::kWarning), "warning");
  EXPECT_EQ(level(LogLevel::kError), "error");
}

TEST_F(LogFormatTest, AnyBytesStayOneValidLineOfAscii) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string line = JsonLogLine(SomeTime(), LogLevel::kError, all, all);
  EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20; })) << line;
  const auto read = nlohmann::json::parse(line);
  EXPECT_EQ(read["message"].get<std::string>().substr(0, 128), all.substr(0, 128));
}

TEST_F(LogFormatTest, QuotesBreaksAndUtf8AreReadBackAsTheyWere) {
  const std::string message = "a \"b\"\n\tc \\ {} %d \x1b[31m \xc3\xa9 \xe2\x82\xac";
  const std::optional<LogLine> read =
      ReadJsonLogLine(JsonLogLine(SomeTime(), LogLevel::kWarning, "s", message));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->level, "warning");
  EXPECT_EQ(read->message, message);
}

TEST_F(LogFormatTest, BytesThatAreNotUtf8BecomeTheReplacementCharacter) {
  const auto read = ReadJsonLogLine(JsonLogLine(SomeTime(), LogLevel::kInfo, "s",
                                                "a\xff"
                                                "b"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->message,
            "a\xef\xbf\xbd"
            "b");
}

TEST_F(LogFormatTest, LogWritesWhatTheFormatSays) {
  ASSERT_TRUE(InitLogging("info", "server 100%s").ok());
  SetLogFormat(LogFormat::kJson);
  const auto read = nlohmann::json::parse(Written("job 7\nis \"done\""));
  EXPECT_EQ(read["source"], "server 100%s");
  EXPECT_EQ(read["level"], "info");
  EXPECT_EQ(read["message"], "job 7\nis \"done\"");
  SetLogFormat(LogFormat::kText);
  EXPECT_NE(Written("job 7").find(" info    [server 100%s] job 7\n"), std::string::npos);
}

TEST_F(LogFormatTest, TheFormatStaysWhenTheNameIsSetLater) {
  SetLogFormat(LogFormat::kJson);
  ASSERT_TRUE(InitLogging("info", "worker w1").ok());
  EXPECT_EQ(nlohmann::json::parse(Written("x"))["source"], "worker w1");
}

TEST_F(LogFormatTest, TheErrorThatEndsAProcessIsWrittenAtAnyLevel) {
  SetLogFormat(LogFormat::kJson);
  ASSERT_TRUE(InitLogging("off", "worker w1").ok());
  CaptureStderr();
  WriteJsonError("no\ncoordinator");
  const std::string line = GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto read = nlohmann::json::parse(line);
  EXPECT_EQ(read["level"], "error");
  EXPECT_EQ(read["source"], "worker w1");
  EXPECT_EQ(read["message"], "no\ncoordinator");
}

TEST_F(LogFormatTest, OtherJsonIsNoLogLine) {
  EXPECT_FALSE(ReadJsonLogLine("").has_value());
  EXPECT_FALSE(ReadJsonLogLine("no JSON").has_value());
  EXPECT_FALSE(ReadJsonLogLine("[1,2,3,4]").has_value());
  EXPECT_FALSE(ReadJsonLogLine("{\"level\":\"info\",\"message\":\"a program's\"}").has_value());
  EXPECT_FALSE(ReadJsonLogLine("{\"time\":1,\"level\":\"info\",\"source\":\"s\",\"message\":\"m\"}")
                   .has_value());
  EXPECT_FALSE(
      ReadJsonLogLine("{\"time\":\"\",\"level\":\"\",\"source\":\"\",\"text\":\"m\"}").has_value());
}

}  // namespace
}  // namespace strata
