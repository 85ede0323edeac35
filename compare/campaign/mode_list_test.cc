#include "compare/campaign/mode_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const std::string& text) {
  const auto modes = ParseModes(text);
  EXPECT_TRUE(modes.ok()) << modes.status();
  std::vector<std::string> names;
  if (!modes.ok()) return names;
  for (const Mode& mode : *modes) names.push_back(mode.name);
  return names;
}

// Of a list that is refused.
std::string Why(const std::string& text) {
  const absl::Status status = ParseModes(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  return std::string(status.message());
}

TEST(ModeList, CommasSeparateModesUnlessInBrackets) {
  EXPECT_THAT(Names("sync, lazy:ssp(3),lazy:diloco(16),async,async_damped,async_dc,ring"),
              ElementsAre("sync", "lazy:ssp(3)", "lazy:diloco(16)", "async", "async_damped",
                          "async_dc", "ring"));
  EXPECT_THAT(Names("sync+trace={steps: 1, first_step: 2},async"),
              ElementsAre("sync+trace={steps: 1, first_step: 2}", "async"));
}

TEST(ModeList, SettingsComeAfterThoseOfTheModesName) {
  const auto mode = ParseMode("delay1+push.codec=FP16+schedule.base_lr=1e+2");
  ASSERT_TRUE(mode.ok()) << mode.status();
  EXPECT_THAT(mode->settings, ElementsAre("consistency.lazy={double_buffering: true}",
                                          "push.codec=FP16", "schedule.base_lr=1e+2"));
}

TEST(ModeList, WhatIsNoModeIsRefusedByName) {
  EXPECT_THAT(Why(""), HasSubstr("no mode to compare"));
  EXPECT_THAT(Why("  "), HasSubstr("no mode to compare"));
  EXPECT_THAT(Why("sync,,async"), HasSubstr("an empty mode between commas"));
  EXPECT_EQ(Why("sync,async,sync"), "mode sync is there twice");
  EXPECT_THAT(Why("sync,bulk"), HasSubstr("mode bulk: \"bulk\" is not one of sync, "));
  EXPECT_THAT(Why("sync,ssp(x)"), HasSubstr("mode ssp(x): \"ssp(x)\" is not NAME or NAME(NUMBER)"));
  EXPECT_THAT(Why("sync,lazy:ssp(3"), HasSubstr("mode lazy:ssp(3: "));
  EXPECT_THAT(Why("async:ssp(3)"), HasSubstr("ssp(3) is lazy"));
  EXPECT_EQ(Why("sync+window"), "mode sync+window: \"+window\" is not +FIELD=VALUE");
  EXPECT_EQ(Why("sync+"), "mode sync+: \"+\" is not +FIELD=VALUE");
}

TEST(ModeList, FileNamesNeedNoQuotes) {
  EXPECT_EQ(ModeFileName("sync"), "sync");
  EXPECT_EQ(ModeFileName("lazy:diloco(16)"), "lazy_diloco_16");
  EXPECT_EQ(ModeFileName("async_dc"), "async_dc");
  EXPECT_EQ(ModeFileName("delay1+push.codec=FP16"), "delay1_push.codec_FP16");
  EXPECT_EQ(ModeFileName("sync+name=\"../x\""), "sync_name_.._x");
}

}  // namespace
}  // namespace strata::compare
