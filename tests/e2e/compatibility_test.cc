#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/message_list.h"

namespace strata::proto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path << ": see tests/e2e/README.md";
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The messages of the oldest version that is still supported.
TEST(CompatibilityTest, ProgramsOfTheOldestVersionAreUnderstood) {
  const std::vector<std::string> earlier =
      absl::StrSplit(Read(absl::StrCat("tests/e2e/version_", kProtocolVersionOldest, ".txt")), '\n',
                     absl::SkipEmpty());
  ASSERT_GT(earlier.size(), 400u);
  const auto now = ListMessages(Read("tests/e2e/now.binpb"));
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

TEST(CompatibilityTest, WhatIsNoDescriptionIsRefused) { EXPECT_FALSE(ListMessages("\xff").ok()); }

}  // namespace
}  // namespace strata::proto
