#include "cli/options/options.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/options/gpu_options.h"
#include "cli/options/invocation.h"
#include "common/log.h"
#include "gmock/gmock.h"
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

// Returns the option's message for such a value; empty: it is accepted.
std::string Said(std::string value) { return Within(0.1, 3600)(value); }

TEST(Within, TakesNumbersOfTheRangeAlone) {
  for (const char* good : {"0.1", "1", "3600", "1e2"}) EXPECT_EQ(Said(good), "") << good;
  EXPECT_EQ(Said("0.05"), "Value 0.05 not in range 0.1 to 3600");
  for (const char* bad : {"nan", "-nan", "inf", "-1", "3600.5", "", "1x", "1e999"}) {
    EXPECT_NE(Said(bad), "") << bad;
  }
}

TEST(Resume, IsAJobsNumberABucketOrAFolderFromTheWorkingDirectoryOn) {
  EXPECT_EQ(ToResumeFrom("7").job_id(), 7u);
  EXPECT_EQ(ToResumeFrom("7").dir(), "");
  const std::string here = std::filesystem::current_path();
  for (const auto& [text, dir] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"/data/c", "/data/c"},
           {"s3://bucket/c", "s3://bucket/c"},
           {"checkpoints/moons", here + "/checkpoints/moons"},
           {"./7", here + "/7"},
           {"../c", std::filesystem::path(here).parent_path() / "c"}}) {
    EXPECT_EQ(ToResumeFrom(text).dir(), dir) << text;
    EXPECT_EQ(ToResumeFrom(text).job_id(), 0u) << text;
  }
}

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<device::DeviceInfo> Devices(uint32_t count) {
  std::vector<device::DeviceInfo> devices(count);
  for (uint32_t i = 0; i < count; ++i) {
    devices[i].index = i;
    devices[i].name = "H100";
    devices[i].memory_bytes = i + 1;
  }
  return devices;
}

TEST(GpuOptions, AllDevicesAreTakenUnlessSomeAreNamed) {
  EXPECT_EQ(ChooseGpus(Devices(3), "")->size(), 3u);
  const auto chosen = ChooseGpus(Devices(3), "0,2");
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_EQ(chosen->size(), 2u);
  EXPECT_EQ((*chosen)[1].index(), 2u);
  EXPECT_EQ((*chosen)[1].name(), "H100");
  EXPECT_EQ((*chosen)[1].memory_bytes(), 3u);
}

TEST(GpuOptions, WhatIsNotThereIsNamed) {
  EXPECT_EQ(ChooseGpus(Devices(2), "1,2").status(),
            absl::InvalidArgumentError("--gpus 2: the devices here are 0,1"));
}

TEST(GpuOptions, IndicesAreNumbersThatAscend) {
  EXPECT_THAT(ParseGpuIndices("0,3,7").value(), ElementsAre(0, 3, 7));
  EXPECT_THAT(ParseGpuIndices("none").value(), IsEmpty());
  for (const char* bad : {"", "0,", "1,0", "0,0", "-1", "all", "0 1"}) {
    EXPECT_EQ(ParseGpuIndices(bad).status(),
              absl::InvalidArgumentError(
                  std::string("gpus \"") + bad +
                  "\": must be none, or ascending indices of devices such as 0,1"));
  }
}

TEST(GpuOptions, NodesOfOneMachineShareItsGpus) {
  const auto three = *ChooseGpus(Devices(4), "1,2,3");
  EXPECT_THAT(ShareGpus(three, 1), ElementsAre(ElementsAre(1, 2, 3)));
  EXPECT_THAT(ShareGpus(three, 2), ElementsAre(ElementsAre(1, 3), ElementsAre(2)));
  EXPECT_THAT(ShareGpus(three, 4),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(1)));
  EXPECT_THAT(ShareGpus({}, 2), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(GpuOptions, AWorkerIsToldWhatWasGiven) {
  EXPECT_THAT(DescribeGpus({}), IsEmpty());
  EXPECT_THAT(
      DescribeGpus({.plugin = "p.so,devices=2", .gpus = "0", .ranks_per_gpu = 2}),
      ElementsAre("--device-plugin", "p.so,devices=2", "--gpus", "0", "--ranks-per-gpu", "2"));
}

TEST(GpuOptions, APluginThatIsAskedForMustBeThereOtherwiseItNeedNot) {
  EXPECT_EQ(FindGpus({.plugin = "no/such.so"}).status().code(), absl::StatusCode::kNotFound);
  const auto none = FindGpus({.plugin = "no/such.so", .gpus = "none"});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(none->gpus, IsEmpty());
}

}  // namespace

}  // namespace strata::cli
