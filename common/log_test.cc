#include "common/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace strata {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Log, AnUnknownLevelIsRefusedByName) {
  const absl::Status status = InitLogging("loud", "test");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("\"loud\""), absl::string_view::npos) << status;
}

TEST(Log, ALineHasUtcTimeLevelProcessAndText) {
  ASSERT_TRUE(InitLogging("info", "server 100%s").ok());
  CaptureStderr();
  LogInfo("job %d: %s", 7, "finished");
  const std::string line = GetCapturedStderr();
  EXPECT_TRUE(testing::internal::RE::FullMatch(
      line, testing::internal::RE("^[0-9-]+T[0-9]+:[0-9]+:[0-9]+.[0-9]+Z info +.server 100%s. "
                                  "job 7: finished\n$")))
      << line;
}

TEST(Log, LinesBelowTheLevelAreNotWritten) {
  ASSERT_TRUE(InitLogging("warning", "test").ok());
  CaptureStderr();
  LogDebug("one");
  LogInfo("two");
  LogWarning("three");
  LogError("four");
  const std::string lines = GetCapturedStderr();
  EXPECT_EQ(lines.find("one"), std::string::npos);
  EXPECT_EQ(lines.find("two"), std::string::npos);
  EXPECT_NE(lines.find("warning [test] three\n"), std::string::npos);
  EXPECT_NE(lines.find("error   [test] four\n"), std::string::npos);
  EXPECT_FALSE(IsLogged(LogLevel::kInfo));
  EXPECT_TRUE(IsLogged(LogLevel::kError));
}

TEST(Log, TextFromOutsideStaysOnOneLine) {
  ASSERT_TRUE(InitLogging("info", "test").ok());
  CaptureStderr();
  LogInfo("%s", "a\nb\x1b[31m {} %d");
  EXPECT_NE(GetCapturedStderr().find("a\\nb\\x1b[31m {} %d\n"), std::string::npos);
}

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
