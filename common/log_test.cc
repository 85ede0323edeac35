#include "common/log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace strata
