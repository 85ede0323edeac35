#include "cli/web/login.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

TEST(Login, ATokenOpensOneSessionAndTheNextTokenAnother) {
  Login login;
  const std::string token = login.token();
  EXPECT_EQ(token.size(), 43u) << "256 bits in base64";
  const std::string first = login.Open(token, kNow);
  EXPECT_TRUE(login.IsOpen(first, kNow));
  EXPECT_EQ(login.Open(token, kNow), "");
  EXPECT_NE(login.token(), token);
  const std::string second = login.Open(login.token(), kNow);
  EXPECT_NE(second, first);
  EXPECT_TRUE(login.IsOpen(first, kNow));
  EXPECT_TRUE(login.IsOpen(second, kNow));
}

TEST(Login, AnotherTokenOpensNothingAndChangesNothing) {
  Login login;
  const std::string token = login.token();
  std::string other = token;
  other[0] = other[0] == 'A' ? 'B' : 'A';
  for (const std::string& wrong : {std::string(), other, token + "A", token.substr(1)}) {
    EXPECT_EQ(login.Open(wrong, kNow), "");
  }
  EXPECT_EQ(login.token(), token);
  EXPECT_FALSE(login.IsOpen("", kNow));
  EXPECT_FALSE(login.IsOpen(token, kNow));
}

TEST(Login, ASessionLastsTwelveHours) {
  Login login;
  const std::string session = login.Open(login.token(), kNow);
  EXPECT_TRUE(login.IsOpen(session, kNow + absl::Hours(12) - absl::Seconds(1)));
  EXPECT_FALSE(login.IsOpen(session, kNow + absl::Hours(12)));
}

TEST(Login, OneSessionMoreThanThereMayBeEndsTheOldest) {
  Login login;
  std::vector<std::string> sessions;
  for (size_t i = 0; i <= Login::kSessionsMax; ++i) {
    sessions.push_back(login.Open(login.token(), kNow));
  }
  EXPECT_FALSE(login.IsOpen(sessions[0], kNow));
  for (size_t i = 1; i < sessions.size(); ++i) EXPECT_TRUE(login.IsOpen(sessions[i], kNow));
}

TEST(Login, TwoLoginsHaveNothingInCommon) {
  Login one, other;
  EXPECT_NE(one.token(), other.token());
  EXPECT_FALSE(other.IsOpen(one.Open(one.token(), kNow), kNow));
}

TEST(SameSecret, HoldsForEqualTextsOfEqualLengthAlone) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("", "a"));
}

TEST(CookieValue, IsFoundAmongOthersByItsWholeName) {
  EXPECT_EQ(CookieValue("a=1; web=2; b=3", "web"), "2");
  EXPECT_EQ(CookieValue("web=x=y", "web"), "x=y");
  EXPECT_EQ(CookieValue("webb=1; we=2", "web"), "");
  EXPECT_EQ(CookieValue("web", "web"), "");
  EXPECT_EQ(CookieValue("", "web"), "");
}

}  // namespace
}  // namespace strata::cli
