#include "common/keys/join_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JoinToken SomeToken() {
  return {.authority = std::string(32, '\x01'), .secret = "0123456789abcdef"};
}

void ExpectJoinTokenRefused(const std::string& text, const std::string& why) {
  const absl::Status status = ParseJoinToken(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(status.message(), HasSubstr(why)) << text;
  // "MDEyMzQ1" is "012345" in base64: where the secret begins.
  EXPECT_THAT(status.message(), Not(HasSubstr("MDEyMzQ1")));
  EXPECT_THAT(status.message(), Not(HasSubstr("012345")));
}

TEST(JoinToken, ItsTextIsReadBack) {
  const std::string text = ToText(SomeToken());
  EXPECT_EQ(text, "strata1.AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE.MDEyMzQ1Njc4OWFiY2RlZg");
  EXPECT_EQ(text.size(), 74);
  for (const std::string& around : {text, " " + text + "\n", "\t" + text + "\r\n\n"}) {
    const absl::StatusOr<JoinToken> token = ParseJoinToken(around);
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->authority, SomeToken().authority);
    EXPECT_EQ(token->secret, SomeToken().secret);
  }
}

TEST(JoinToken, EachNewOneHasItsOwnSecret) {
  const std::string fingerprint(32, 'f');
  const JoinToken one = MakeJoinToken(fingerprint).value();
  const JoinToken two = MakeJoinToken(fingerprint).value();
  EXPECT_EQ(one.authority, fingerprint);
  EXPECT_EQ(one.secret.size(), 16);
  EXPECT_NE(one.secret, two.secret);
  EXPECT_EQ(ParseJoinToken(ToText(one))->secret, one.secret);
}

TEST(JoinToken, AFingerprintOfAnotherLengthIsRefused) {
  const absl::Status status = MakeJoinToken("short").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the fingerprint of an authority has 32 bytes, not 5");
}

TEST(JoinToken, EveryWrongTextHasItsLineWithoutTheSecret) {
  const std::string text = ToText(SomeToken());
  const std::string secret = text.substr(text.rfind('.') + 1);
  ExpectJoinTokenRefused("", "the token is empty");
  ExpectJoinTokenRefused(" \n", "the token is empty");
  ExpectJoinTokenRefused(secret, "this is no token");
  ExpectJoinTokenRefused("x" + text, "this is no token");
  ExpectJoinTokenRefused("strata2" + text.substr(7),
                         "not of the version that this program knows, strata1");
  ExpectJoinTokenRefused("strata1", "cut off");
  ExpectJoinTokenRefused(text.substr(0, text.size() - 1), "cut off or has something added");
  ExpectJoinTokenRefused(text + "A", "cut off or has something added");
  ExpectJoinTokenRefused(text + "." + secret, "cut off or has something added");
  ExpectJoinTokenRefused(text + " " + text, "cut off or has something added");
  for (const char wrong : {'+', '/', '=', ' ', '\0', '\xff'}) {
    for (const size_t at : {size_t{10}, text.size() - 1}) {
      std::string changed = text + "";
      changed[at] = wrong;
      // White space at the end is not part of the token, which is one character short then.
      const bool is_cut = wrong == ' ' && at == text.size() - 1;
      ExpectJoinTokenRefused(changed, is_cut ? "cut off" : "characters that do not belong there");
    }
  }
}

TEST(JoinToken, ATokenHasOnlyOneText) {
  std::string text = ToText(SomeToken());
  ASSERT_EQ(text.back(), 'g');  // 'h' would differ in bits beyond the last byte.
  text.back() = 'h';
  ExpectJoinTokenRefused(text, "characters that do not belong there");
}

TEST(JoinToken, TheCommandThatMakesOneIsThatOfTheRole) {
  EXPECT_EQ(TokenCommand(Role::kWorker, "w1"), "`strata keys token worker`");
  EXPECT_EQ(TokenCommand(Role::kServer, ""), "`strata keys token server`");
  EXPECT_EQ(TokenCommand(Role::kUser, "ada"), "`strata keys user ada`");
  // A stranger's name is repeated only if it is valid.
  EXPECT_EQ(TokenCommand(Role::kUser, "a\nb"), "`strata keys user NAME`");
  EXPECT_EQ(TokenCommand(Role::kUser, ""), "`strata keys user NAME`");
}

TEST(JoinToken, TheHashOfASecretIsSha256) {
  // The example of FIPS 180-2.
  EXPECT_EQ(absl::BytesToHexString(SecretHash("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace strata::keys
