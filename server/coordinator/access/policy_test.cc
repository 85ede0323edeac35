#include "server/coordinator/access/policy.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using proto::UserPolicy;
using ::testing::HasSubstr;
using ::testing::Not;

UserRights RightsOf(const std::string& text, const std::string& user,
                    const proto::UserGrant* remembered = nullptr) {
  const auto policy = Policy::Parse(text, "policy");
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? policy->RightsOf(user, remembered) : UserRights();
}

TEST(Policy, SaysOfEachUserWhatStandsThere) {
  const std::string text = R"(
    users {
      name: "alice" namespace: "vision" role: SUBMIT slots: 8
      path_prefixes: "/data/vision/" path_prefixes: "s3://weights//vision"
    }
    users { name: "bob" role: ADMIN }
    allow_plain: true
  )";
  EXPECT_EQ(RightsOf(text, "alice"),
            (UserRights{UserPolicy::SUBMIT, "vision", 8, {"/data/vision", "s3://weights/vision"}}));
  EXPECT_EQ(RightsOf(text, "bob"), (UserRights{UserPolicy::ADMIN}));
  const auto policy = Policy::Parse(text, "policy");
  EXPECT_TRUE(policy->allow_plain());
  EXPECT_FALSE(policy->trusted_network());
  EXPECT_TRUE(Policy::Parse("trusted_network: true", "policy")->trusted_network());
  EXPECT_EQ(policy->users(), 2u);
}

TEST(Policy, WhereNobodyIsListedAllMayRunPrograms) {
  EXPECT_EQ(Policy().RightsOf("eve", nullptr), (UserRights{UserPolicy::RUN_PROGRAMS}));
  EXPECT_EQ(RightsOf("", "eve"), (UserRights{UserPolicy::RUN_PROGRAMS}));
  EXPECT_EQ(RightsOf("allow_plain: true", "eve"), (UserRights{UserPolicy::RUN_PROGRAMS}));
  EXPECT_FALSE(Policy().allow_plain());
  EXPECT_FALSE(Policy().trusted_network());
}

TEST(Policy, WhoIsNotListedWhereOthersAreMayDoNothing) {
  EXPECT_EQ(RightsOf("users { name: 'bob' role: VIEW }", "eve"), UserRights());
  EXPECT_EQ(RightsOf("users { name: 'bob' role: VIEW } "
                     "default_user { role: VIEW namespace: 'guests' slots: 1 }",
                     "eve"),
            (UserRights{UserPolicy::VIEW, "guests", 1}));
}

TEST(Policy, TheFileWinsOverWhatWasRememberedAndThatOverTheDefault) {
  proto::UserGrant grant;
  grant.set_role(UserPolicy::SUBMIT);
  grant.set_namespace_("speech");
  const std::string text = "users { name: 'bob' role: VIEW } default_user { role: NONE }";
  EXPECT_EQ(RightsOf(text, "bob", &grant), (UserRights{UserPolicy::VIEW}));
  EXPECT_EQ(RightsOf(text, "eve", &grant), (UserRights{UserPolicy::SUBMIT, "speech"}));
  EXPECT_EQ(RightsOf("", "eve", &grant), (UserRights{UserPolicy::SUBMIT, "speech"}));
}

TEST(Policy, WhatIsWrongIsSaidInOneLineWithFileLineAndField) {
  const std::pair<std::string, std::string> cases[] = {
      {"users { name: 'a' role: VIEW }\nusers { role: VIEW }", "p:2:1: name: is required"},
      {"users {\n  name: 'a b'\n  role: VIEW\n}", "p:2:3: name: "},
      {"users { name: 'a' role: VIEW }\nusers {\n name: 'a' role: VIEW }",
       "p:3:2: name: user a is listed twice"},
      {"\nusers { name: 'a' }", "p:2:1: role: is required of user a: one of NONE, VIEW"},
      {"users {\n name: 'a'\n role: KING }", "p:3:8: Unknown enumeration value"},
      {"users {\n name: 'a'\n role: KING\n }", "p:3:8: Unknown enumeration value"},
      {"users { name: 'a'\n role: 9 }", "p:2:"},
      {"users { name: 'a' role: VIEW\n namespace: '../b' }", "p:2:2: namespace: "},
      {"users { name: 'a' role: VIEW path_prefixes: '/b'\n path_prefixes: 'c' }",
       "p:2:2: path_prefixes: \"c\": it is neither absolute nor s3://"},
      {"users { name: 'a' role: VIEW\n\n path_prefixes: '/b/../c' }",
       "p:3:2: path_prefixes: \"/b/../c\": it has a part \"..\""},
      {"users { name: 'a' role: VIEW path_prefixes: '' }", "p:1:30: path_prefixes: "},
      {"users { name: 'a' role: VIEW\n slots: -1 }", "p:2:9: "},
      {"users { name: 'a' role: VIEW\n slots: 4294967296 }", "p:2:9: "},
      {"users { name: 'a' role: VIEW\n role: VIEW }", "p:2:"},
      {"\ndefault_user { }", "p:2:1: role: is required"},
      {"default_user {\n name: 'a' role: VIEW }", "p:2:2: name: default_user has none"},
      {"\n\nuser { }", "p:3:"},
      {"allow_plain: maybe", "p:1:14: Invalid value for boolean field \"allow_plain\""},
      {"users { name: 'a' role: VIEW", "p:1:"},
      {"\x01\x02", "p:1:"},
      {"users { name: '\x01\n' }", "p:1:"},
  };
  for (const auto& [text, begin] : cases) {
    const absl::Status status = Policy::Parse(text, "p").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_EQ(status.message().substr(0, begin.size()), begin) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n"))) << text;
  }
}

TEST(Policy, WhatIsBeyondItsBoundIsNamed) {
  const std::string text = "users { name: '" + std::string(300, 'n') + "' role: VIEW }";
  EXPECT_EQ(Policy::Parse(text, "p").status().message(),
            "p: users[0].name has 300 bytes, at most 256 are possible");
}

TEST(Policy, AnUnknownRoleOrFieldIsNamedAndWhatThereIs) {
  EXPECT_THAT(
      std::string(Policy::Parse("users { name: 'a' role: KING }", "p").status().message()),
      testing::AllOf(HasSubstr("KING"), HasSubstr("role"), HasSubstr("NONE, VIEW, SUBMIT, ")));
  EXPECT_THAT(std::string(Policy::Parse("users { nam: 'a' }", "p").status().message()),
              HasSubstr("nam"));
  EXPECT_THAT(std::string(Policy::Parse("users { name: 'a' role: 9 }", "p").status().message()),
              HasSubstr("role"));
}

TEST(UserRoleName, IsReadBack) {
  for (int i = 0; i < UserPolicy::Role_descriptor()->value_count(); ++i) {
    const auto role = static_cast<UserRole>(UserPolicy::Role_descriptor()->value(i)->number());
    EXPECT_EQ(ParseUserRole(UserRoleName(role)), role);
  }
  EXPECT_EQ(UserRoleName(UserPolicy::RUN_PROGRAMS), "run-programs");
  EXPECT_EQ(ParseUserRole("RUN_PROGRAMS"), std::nullopt);
}

TEST(NormalPath, LeavesOutWhatSaysNothing) {
  for (const auto& [path, normal] :
       {std::pair("/", "/"), std::pair("//", "/"), std::pair("/.", "/"), std::pair("/a", "/a"),
        std::pair("/a/", "/a"), std::pair("//a//b/./c/.", "/a/b/c"), std::pair("/a/...", "/a/..."),
        std::pair("/a/..b", "/a/..b"), std::pair("s3://bucket", "s3://bucket"),
        std::pair("s3://bucket//a/./b/", "s3://bucket/a/b")}) {
    EXPECT_EQ(NormalPath(path).value_or("refused"), normal);
  }
}

TEST(NormalPath, RefusesWhatMayLeadElsewhere) {
  for (const std::string path :
       {"", "a", "./a", "../a", "~/a", "/..", "/a/..", "/a/../b", "/../a", "s3:", "s3:/a", "s3://",
        "s3:///a", "s3://./a", "s3://../a", "s3://bucket/../other", "file:///a"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(NormalPath(path).status())) << path;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(NormalPath(std::string("/a\0/b", 5)).status()));
}

TEST(LiesBelow, ComparesWholeParts) {
  EXPECT_TRUE(LiesBelow("/data/vision", "/data/vision"));
  EXPECT_TRUE(LiesBelow("/data/vision/a", "/data/vision"));
  EXPECT_TRUE(LiesBelow("/data", "/"));
  EXPECT_TRUE(LiesBelow("s3://b/vision/a", "s3://b/vision"));
  EXPECT_FALSE(LiesBelow("/data/visions", "/data/vision"));
  EXPECT_FALSE(LiesBelow("/data", "/data/vision"));
  EXPECT_FALSE(LiesBelow("/date/vision", "/data/vision"));
  EXPECT_FALSE(LiesBelow("s3://b/a", "/"));
  EXPECT_FALSE(LiesBelow("s3://bb/vision", "s3://b"));
  EXPECT_FALSE(LiesBelow("/s3:/b", "s3://b"));
}

}  // namespace

}  // namespace strata::server
