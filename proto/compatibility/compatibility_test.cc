#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/compatibility/message_list.h"

namespace strata::proto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What was on the wire when the oldest version that is still taken was the newest.
TEST(CompatibilityTest, ProgramsOfTheOldestVersionAreUnderstood) {
  const std::string path =
      absl::StrCat("proto/compatibility/version_", kProtocolVersionOldest, ".txt");
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << path << ": proto/compatibility/README.md tells how it is made";
  std::vector<std::string> earlier;
  for (std::string line; std::getline(file, line);) earlier.push_back(line);
  ASSERT_GT(earlier.size(), 400u);
  const auto now = ListMessages(
      ".", {"proto/job.proto", "proto/record.proto", "proto/processes.proto",
            "proto/control.proto", "proto/keys.proto", "proto/policy.proto"});
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_THAT(Breaks(earlier, *now), IsEmpty());
}

TEST(CompatibilityTest, OtherNamesAndNewFieldsBreakNothing) {
  EXPECT_THAT(Breaks({"field p.A 1 uint32 size", "value p.E 1 GOOD"},
                     {"field p.A 1 uint32 bytes", "field p.A 2 string name", "value p.E 1 FINE",
                      "value p.E 2 BAD", "call p.S.Get p.A p.B"}),
              IsEmpty());
  EXPECT_THAT(Breaks({"field p.A 1 uint32 size"}, {"reserved p.A 1"}), IsEmpty());
}

TEST(CompatibilityTest, WhatIsGoneOrAnotherIsNamed) {
  EXPECT_THAT(Breaks({"field p.A 1 uint32 size"}, {"field p.A 1 string size"}),
              ElementsAre("field p.A 1 uint32 size: is another now"));
  EXPECT_THAT(Breaks({"field p.A 1 p.B b"}, {"field p.A 1 repeated p.B b"}), SizeIs(1));
  EXPECT_THAT(Breaks({"field p.A 1 uint32 size"}, {"field p.A 2 uint32 size"}),
              ElementsAre(HasSubstr("is gone, and its number is not reserved")));
  EXPECT_THAT(Breaks({"value p.E 1 GOOD"}, {"value p.E 2 GOOD"}), SizeIs(1));
  EXPECT_THAT(Breaks({"call p.S.Get p.A p.B"}, {"call p.S.Get p.A stream p.B"}), SizeIs(1));
}

TEST(CompatibilityTest, AFileThatCannotBeReadIsNamed) {
  const auto lines = ListMessages(".", {"proto/nothing.proto"});
  EXPECT_THAT(std::string(lines.status().message()), HasSubstr("proto/nothing.proto"));
}

}  // namespace
}  // namespace strata::proto
