#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/options/options.h"
#include "cli/program/invocation.h"
#include "common/log_format.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

constexpr char kVariable[] = "STRATA_LOG_FORMAT";

class LogFormatOption : public testing::Test {
 protected:
  LogFormatOption() { AddLogFormatOption(&app_); }
  ~LogFormatOption() override {
    unsetenv(kVariable);
    SetLogFormat(LogFormat::kText);
  }

  LogFormat Parsed(const std::string& arguments) {
    app_.parse(arguments);
    return CurrentLogFormat();
  }

  CLI::App app_{"a daemon"};
};

TEST_F(LogFormatOption, IsTextUnlessTold) {
  EXPECT_EQ(Parsed(""), LogFormat::kText);
  EXPECT_EQ(Parsed("--log-format json"), LogFormat::kJson);
}

TEST_F(LogFormatOption, TheVariableSaysItToo) {
  setenv(kVariable, "json", 1);
  EXPECT_EQ(Parsed(""), LogFormat::kJson);
}

TEST_F(LogFormatOption, TheCommandLineWinsOverTheVariable) {
  setenv(kVariable, "json", 1);
  EXPECT_EQ(Parsed("--log-format text"), LogFormat::kText);
}

TEST_F(LogFormatOption, AnyOtherIsRefusedFromEither) {
  EXPECT_THROW(app_.parse("--log-format xml"), CLI::ValidationError);
  setenv(kVariable, "xml", 1);
  EXPECT_THROW(app_.parse(""), CLI::ValidationError);
}

TEST_F(LogFormatOption, TheErrorThatEndsACommandIsWrittenInIt) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(PrintError("no coordinator", kExitFailed), kExitFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "strata: error: no coordinator\n");
  SetLogFormat(LogFormat::kJson);
  testing::internal::CaptureStderr();
  EXPECT_EQ(PrintError("no coordinator", kExitFailed), kExitFailed);
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "no coordinator");
}

}  // namespace
}  // namespace strata::cli
