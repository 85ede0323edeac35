#include "common/keys/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

TEST(Identity, EveryRoleIsReadBackFromItsUri) {
  for (const Role role : {Role::kCoordinator, Role::kServer, Role::kWorker, Role::kUser}) {
    const Identity identity{"blue-1.example", role, "host_7.rack-2-12345"};
    const absl::StatusOr<Identity> read = ParseUri(ToUri(identity));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, identity);
    EXPECT_EQ(ParseRole(RoleName(role)), role);
  }
  EXPECT_EQ(ParseRole("Worker"), std::nullopt);
}

TEST(Identity, TheTextsAreThoseOfTheHeader) {
  const Identity identity{"blue", Role::kWorker, "w1"};
  EXPECT_EQ(ToUri(identity), "spiffe://blue/worker/w1");
  EXPECT_EQ(IdentityText(identity), "worker w1");
  EXPECT_EQ(ToClusterUri("blue"), "spiffe://blue");
  EXPECT_EQ(*ParseClusterUri("spiffe://blue"), "blue");
}

TEST(Identity, OtherUrisAreRefused) {
  for (const absl::string_view uri :
       {"", "blue/worker/w1", "http://blue/worker/w1", "SPIFFE://blue/worker/w1", "spiffe://blue",
        "spiffe://blue/worker", "spiffe://blue/worker/", "spiffe:///worker/w1",
        "spiffe://blue/root/w1", "spiffe://blue/worker/w1/", "spiffe://blue/worker/w1?a",
        "spiffe://Blue/worker/w1", "spiffe://blue:80/worker/w1", "spiffe://blue/worker/..",
        "spiffe://blue/worker/%77"}) {
    EXPECT_EQ(ParseUri(uri).status().code(), absl::StatusCode::kInvalidArgument) << uri;
  }
  for (const absl::string_view uri :
       {"", "blue", "spiffe://", "spiffe://blue/", "spiffe://blue/worker/w1"}) {
    EXPECT_EQ(ParseClusterUri(uri).status().code(), absl::StatusCode::kInvalidArgument) << uri;
  }
}

TEST(Identity, AnErrorShowsTheUriInOneShortLine) {
  const std::string uri = "x\ny\x1b" + std::string(1000, 'z');
  const std::string message(ParseUri(uri).status().message());
  EXPECT_THAT(message, HasSubstr("is no identity"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 400);
}

TEST(Identity, NamesFitTheirRules) {
  for (const std::string& name :
       {std::string("a"), std::string("W_1"), std::string("gpu-07.example.org-31337"),
        std::string("_"), std::string(255, 'x')}) {
    EXPECT_TRUE(CheckName(name).ok()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("."), std::string("-x"), std::string("a b"), std::string("a/b"),
        std::string("\xc3\xa9"), std::string("a\0b", 3), std::string(256, 'x')}) {
    const absl::Status status = CheckName(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("1 to 255 letters"));
  }
}

TEST(Identity, NamesOfClustersFitTheirRules) {
  for (const std::string& name :
       {std::string("a"), std::string("blue.example-2"), std::string("7"), std::string(64, 'x')}) {
    EXPECT_TRUE(CheckCluster(name).ok()) << name;
  }
  for (const std::string& name : {std::string(), std::string(".a"), std::string("-a"),
                                  std::string("A"), std::string("a_b"), std::string(65, 'x')}) {
    const absl::Status status = CheckCluster(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("the cluster's name"));
  }
}

}  // namespace
}  // namespace strata::keys
