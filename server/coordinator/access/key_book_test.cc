#include "server/coordinator/access/key_book.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using keys::Role;
using ::testing::AllOf;
using ::testing::HasSubstr;

const absl::Time kKeyBookNow = absl::FromUnixSeconds(1'800'000'000);

proto::MakeTokenRequest Token(std::vector<std::string> roles, const std::string& name = "",
                              uint32_t uses = 1) {
  proto::MakeTokenRequest request;
  for (const std::string& role : roles) request.add_roles(role);
  request.set_name(name);
  request.set_ttl_s(3600);
  request.set_uses(uses);
  return request;
}

proto::RevokeRequest Of(const std::string& name, const std::string& role = "") {
  proto::RevokeRequest request;
  request.set_role(role);
  request.set_name(name);
  return request;
}

TEST(KeyBook, ATokenLetsOneInAndIsUsedUp) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker"}), kKeyBookNow).ok());
  const auto first = book.Join("t", Role::kWorker, "w1", kKeyBookNow);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->begins, kKeyBookNow - KeyBook::kClockDifference);
  EXPECT_EQ(first->ends, kKeyBookNow + KeyBook::kDaemonLife);
  const absl::Status again = book.Join("t", Role::kWorker, "w2", kKeyBookNow).status();
  EXPECT_TRUE(absl::IsPermissionDenied(again));
  EXPECT_THAT(again.message(),
              AllOf(HasSubstr("used already"),
                    HasSubstr("cluster; `strata keys token worker` makes a new one")));
  EXPECT_THAT(book.Join("t", Role::kUser, "ada", kKeyBookNow).status().message(),
              HasSubstr("cluster; `strata keys user ada` makes a new one"));
}

TEST(KeyBook, ATokenForSeveralLetsThatManyIn) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker", "server"}, "", 3), kKeyBookNow).ok());
  EXPECT_TRUE(book.Join("t", Role::kWorker, "n1", kKeyBookNow).ok());
  EXPECT_TRUE(book.Join("t", Role::kServer, "n1", kKeyBookNow).ok());
  EXPECT_TRUE(book.Join("t", Role::kWorker, "n2", kKeyBookNow).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(book.Join("t", Role::kWorker, "n3", kKeyBookNow).status()));
}

TEST(KeyBook, AUserIsRevokedUntilTheyHaveANewCertificate) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"user"}, "ada", 2), kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("t", Role::kUser, "ada", kKeyBookNow).ok());
  EXPECT_EQ(book.RevokedUntil("ada"), absl::InfinitePast());
  ASSERT_TRUE(book.Revoke(Of("ada", "user"), kKeyBookNow).ok());
  EXPECT_EQ(book.RevokedUntil("ada"), kKeyBookNow);
  EXPECT_EQ(book.RevokedUntil("eve"), absl::InfinitePast());
  ASSERT_TRUE(book.AddToken("new", Token({"user"}, "ada"), kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("new", Role::kUser, "ada", kKeyBookNow + absl::Seconds(1)).ok());
  EXPECT_EQ(book.RevokedUntil("ada"), absl::InfinitePast());
}

TEST(KeyBook, ARefusedJoinDoesNotUseTheTokenUp) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker"}, "w1"), kKeyBookNow).ok());
  EXPECT_THAT(book.Join("t", Role::kServer, "w1", kKeyBookNow).status().message(),
              HasSubstr("for a worker, not for a server: `strata keys token server` makes one"));
  EXPECT_THAT(book.Join("t", Role::kWorker, "w2", kKeyBookNow).status().message(),
              HasSubstr("for worker w1, not for worker w2: join with --name w1, or with a token "
                        "of `strata keys token worker` with --name w2"));
  ASSERT_TRUE(book.AddToken("u", Token({"user"}, "ada"), kKeyBookNow).ok());
  EXPECT_THAT(std::string(book.Join("u", Role::kUser, "bob", kKeyBookNow).status().message()),
              testing::EndsWith("join with --name ada, or with a token of `strata keys user bob`"));
  ASSERT_TRUE(book.AddToken("any", Token({"worker"}), kKeyBookNow).ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(book.Join("any", Role::kWorker, "no name", kKeyBookNow).status()));
  const auto joined = book.Join("t", Role::kWorker, "", kKeyBookNow);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->name, "w1") << "the token's";
}

TEST(KeyBook, ATokenIsTooLateAtItsEnd) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker"}), kKeyBookNow).ok());
  const absl::Status late =
      book.Join("t", Role::kWorker, "w1", kKeyBookNow + absl::Hours(1)).status();
  EXPECT_TRUE(absl::IsPermissionDenied(late));
  EXPECT_EQ(late.message(),
            "the token was good until 2027-01-15T09:00:00+00:00: `strata keys token worker` makes "
            "a new one");
  EXPECT_TRUE(
      book.Join("t", Role::kWorker, "w1", kKeyBookNow + absl::Hours(1) - absl::Seconds(1)).ok());
}

TEST(KeyBook, ANameInUseIsNotGivenAgainUnlessTheTokenNamesIt) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("a", Token({"worker"}, "", 2), kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("a", Role::kWorker, "w1", kKeyBookNow).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(book.Join("a", Role::kWorker, "w1", kKeyBookNow).status()));
  ASSERT_TRUE(book.AddToken("b", Token({"worker"}, "w1"), kKeyBookNow).ok());
  EXPECT_TRUE(book.Join("b", Role::kWorker, "w1", kKeyBookNow).ok());
  // An expired certificate does not reserve its name.
  const absl::Time later = kKeyBookNow + KeyBook::kDaemonLife;
  ASSERT_TRUE(book.AddToken("c", Token({"worker"}), later).ok());
  EXPECT_TRUE(book.Join("c", Role::kWorker, "w1", later).ok());
}

TEST(KeyBook, WhatIsRevokedIsRefusedAndANewOneIsNot) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker"}, "", 2), kKeyBookNow).ok());
  const auto first = book.Join("t", Role::kWorker, "w1", kKeyBookNow);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(book.IsRevoked(Role::kWorker, "w1", first->begins));
  const auto who = book.Revoke(Of("w1"), kKeyBookNow);
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(who->second, "w1");
  EXPECT_TRUE(book.IsRevoked(Role::kWorker, "w1", first->begins));
  EXPECT_FALSE(book.IsRevoked(Role::kServer, "w1", first->begins));
  EXPECT_FALSE(book.IsRevoked(Role::kWorker, "w2", first->begins));
  // Issued right afterwards, it is valid at once.
  const auto second = book.Join("t", Role::kWorker, "w1", kKeyBookNow);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_LE(second->begins, kKeyBookNow);
  EXPECT_FALSE(book.IsRevoked(Role::kWorker, "w1", second->begins));
  EXPECT_TRUE(book.IsRevoked(Role::kWorker, "w1", first->begins));
}

TEST(KeyBook, ARevocationOutlivesARestart) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker"}), kKeyBookNow).ok());
  const auto given = book.Join("t", Role::kWorker, "w1", kKeyBookNow);
  ASSERT_TRUE(given.ok());
  ASSERT_TRUE(book.AddToken("open", Token({"server"}), kKeyBookNow).ok());
  ASSERT_TRUE(book.Revoke(Of("w1"), kKeyBookNow).ok());
  KeyBook next(book.Record());
  EXPECT_TRUE(next.IsRevoked(Role::kWorker, "w1", given->begins));
  next.Forget(kKeyBookNow + absl::Hours(24 * 365));
  EXPECT_TRUE(next.IsRevoked(Role::kWorker, "w1", given->begins));
  KeyBook other(book.Record());
  EXPECT_TRUE(other.Join("open", Role::kServer, "s1", kKeyBookNow).ok());
  EXPECT_FALSE(other.Join("t", Role::kWorker, "w2", kKeyBookNow).ok());
}

TEST(KeyBook, RevokingSaysWhomWhereSeveralHaveTheNameOrNobody) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("t", Token({"worker", "server"}, "", 2), kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("t", Role::kWorker, "n1", kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("t", Role::kServer, "n1", kKeyBookNow).ok());
  EXPECT_THAT(book.Revoke(Of("n1"), kKeyBookNow).status().message(), HasSubstr("--role"));
  EXPECT_TRUE(book.Revoke(Of("n1", "server"), kKeyBookNow).ok());
  EXPECT_TRUE(absl::IsNotFound(book.Revoke(Of("n2"), kKeyBookNow).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(book.Revoke(Of("c", "coordinator"), kKeyBookNow).status()));
  // A member admitted by another authority has no entry here.
  EXPECT_TRUE(book.Revoke(Of("n2", "worker"), kKeyBookNow).ok());
  EXPECT_TRUE(book.IsRevoked(Role::kWorker, "n2", kKeyBookNow - absl::Hours(1)));
}

TEST(KeyBook, RevokingClosesTheTokensOfTheNameAndAllAtOnceWhereThatIsAsked) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("any", Token({"worker"}, "", 9), kKeyBookNow).ok());
  ASSERT_TRUE(book.AddToken("own", Token({"worker"}, "w1"), kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("any", Role::kWorker, "w1", kKeyBookNow).ok());
  ASSERT_TRUE(book.Revoke(Of("w1"), kKeyBookNow).ok());
  EXPECT_FALSE(book.HasToken("own"));
  EXPECT_TRUE(book.HasToken("any"));
  EXPECT_EQ(book.CloseTokens(), 1u);
  EXPECT_TRUE(
      absl::IsPermissionDenied(book.Join("any", Role::kWorker, "w2", kKeyBookNow).status()));
}

TEST(KeyBook, TokensThatMakeNoSenseAreRefused) {
  KeyBook book;
  const auto refused = [&](const proto::MakeTokenRequest& request) {
    return absl::IsInvalidArgument(book.AddToken("t", request, kKeyBookNow));
  };
  EXPECT_TRUE(refused(Token({})));
  EXPECT_TRUE(refused(Token({"coordinator"})));
  EXPECT_TRUE(refused(Token({"king"})));
  EXPECT_TRUE(refused(Token({"user"})));
  EXPECT_TRUE(refused(Token({"worker"}, "a b")));
  EXPECT_TRUE(refused(Token({"worker"}, "", 0)));
  EXPECT_TRUE(refused(Token({"worker"}, "", KeyBook::kUsesMax + 1)));
  proto::MakeTokenRequest forever = Token({"worker"});
  forever.set_ttl_s(absl::ToInt64Seconds(KeyBook::kTtlMax) + 1);
  EXPECT_TRUE(refused(forever));
  forever.set_ttl_s(-1);
  EXPECT_TRUE(refused(forever));
}

TEST(KeyBook, OpenTokensAreBoundedAndThoseThatAreTooLateMakeRoom) {
  KeyBook book;
  for (size_t i = 0; i < KeyBook::kTokensMax; ++i) {
    ASSERT_TRUE(book.AddToken(std::to_string(i), Token({"worker"}), kKeyBookNow).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(book.AddToken("x", Token({"worker"}), kKeyBookNow)));
  EXPECT_TRUE(book.AddToken("x", Token({"worker"}), kKeyBookNow + absl::Hours(2)).ok());
}

proto::MakeTokenRequest UserToken(const std::string& name, proto::UserPolicy::Role role,
                                  const std::string& tenant = "") {
  proto::MakeTokenRequest request = Token({"user"}, name);
  request.mutable_grant()->set_role(role);
  request.mutable_grant()->set_namespace_(tenant);
  return request;
}

TEST(KeyBook, WhatATokenSaysOfAUserIsRememberedOnceItIsUsed) {
  KeyBook book;
  ASSERT_TRUE(
      book.AddToken("x", UserToken("ada", proto::UserPolicy::VIEW, "vision"), kKeyBookNow).ok());
  EXPECT_EQ(book.GrantOf("ada"), nullptr);
  ASSERT_TRUE(book.Join("x", Role::kUser, "ada", kKeyBookNow).ok());
  const KeyBook again(book.Record());
  ASSERT_NE(again.GrantOf("ada"), nullptr);
  EXPECT_EQ(again.GrantOf("ada")->role(), proto::UserPolicy::VIEW);
  EXPECT_EQ(again.GrantOf("ada")->namespace_(), "vision");
  EXPECT_EQ(again.GrantOf("bob"), nullptr);
}

TEST(KeyBook, ATokenThatSaysNothingOfAUserGivesNobodyMore) {
  KeyBook book;
  ASSERT_TRUE(book.AddToken("x", UserToken("ada", proto::UserPolicy::VIEW), kKeyBookNow).ok());
  ASSERT_TRUE(book.AddToken("y", Token({"user"}, "ada"), kKeyBookNow).ok());
  ASSERT_TRUE(book.AddToken("z", UserToken("ada", proto::UserPolicy::ADMIN), kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("x", Role::kUser, "ada", kKeyBookNow).ok());
  ASSERT_TRUE(book.Join("y", Role::kUser, "ada", kKeyBookNow).ok());
  EXPECT_EQ(book.GrantOf("ada")->role(), proto::UserPolicy::VIEW);
  ASSERT_TRUE(book.Renew(Role::kUser, "ada", kKeyBookNow).ok());
  EXPECT_EQ(book.GrantOf("ada")->role(), proto::UserPolicy::VIEW);
  ASSERT_TRUE(book.Join("z", Role::kUser, "ada", kKeyBookNow).ok());
  EXPECT_EQ(book.GrantOf("ada")->role(), proto::UserPolicy::ADMIN);
}

TEST(KeyBook, OnlyAUserIsGivenARoleOfThePolicy) {
  KeyBook book;
  const auto refused = [&](proto::MakeTokenRequest request) {
    return absl::IsInvalidArgument(book.AddToken("x", request, kKeyBookNow));
  };
  proto::MakeTokenRequest worker = Token({"worker"}, "w1");
  worker.mutable_grant()->set_role(proto::UserPolicy::ADMIN);
  EXPECT_TRUE(refused(worker));
  proto::MakeTokenRequest both = UserToken("ada", proto::UserPolicy::ADMIN);
  both.add_roles("worker");
  EXPECT_TRUE(refused(both));
  EXPECT_TRUE(refused(UserToken("ada", static_cast<proto::UserPolicy::Role>(9))));
  EXPECT_TRUE(refused(UserToken("ada", proto::UserPolicy::VIEW, "../vision")));
}

}  // namespace
}  // namespace strata::server
