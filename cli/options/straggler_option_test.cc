#include "cli/options/straggler_option.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

TEST(Straggler, IsASettingOfTheJob) {
  for (const auto& [text, setting] : std::vector<std::pair<std::string, std::string>>{
           {"node=1,slow=4x", "debug.delays={node: 1 slow: 4}"},
           {"slow=1.5,node=0", "debug.delays={node: 0 slow: 1.5}"},
           {"node=2,delay=30ms", "debug.delays={node: 2 delay_ms: 30 jitter_ms: 0}"},
           {"node=2,delay=30ms±10ms", "debug.delays={node: 2 delay_ms: 30 jitter_ms: 10}"},
           {"node=2,delay=1.5s+-250ms", "debug.delays={node: 2 delay_ms: 1500 jitter_ms: 250}"},
           {"node=3,slow=2x,delay=5ms", "debug.delays={node: 3 slow: 2 delay_ms: 5 jitter_ms: 0}"},
       }) {
    const auto got = SettingOfStraggler(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(*got, setting);
  }
}

TEST(Straggler, WhatIsWrongIsNamed) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "\"\" is not node, slow or delay"},
           {"slow=4x", "node is missing"},
           {"node=1", "slow or delay is missing"},
           {"node=1,node=2,slow=4", "node stands there twice"},
           {"node=one,slow=4", "node=one: not a number"},
           {"node=1,slow=0.5x", "slow=0.5x: not a number from 1 on"},
           {"node=1,slow=fast", "slow=fast: not a number from 1 on"},
           {"node=1,delay=30", "delay=30: not a duration"},
           {"node=1,delay=30ms+-ten", "delay=ten: not a duration"},
           {"node=1,speed=4", "\"speed=4\" is not node, slow or delay"},
       }) {
    const auto got = SettingOfStraggler(text);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(got.status().message(), why + ", as in node=1,slow=4x or node=1,delay=30ms+-10ms");
  }
}

}  // namespace
}  // namespace strata::cli
