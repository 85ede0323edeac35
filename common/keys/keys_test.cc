#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/keys/identity.h"
#include "common/keys/join_token.h"
#include "common/keys/key_file.h"
#include "common/keys/pem.h"
#include "common/keys/private_file.h"
#include "common/testing/test_keys.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

const absl::Time kFileNow = absl::FromUnixSeconds(1800000000);
const absl::Time kEnd = kFileNow + absl::Hours(3);
const Identity kServer{"blue", Role::kServer, "s1"};

void ExpectFileRefused(const std::string& pem, const std::string& why) {
  const absl::Status status = ParseKeyFile(pem, "/etc/strata/key.pem").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("/etc/strata/key.pem: " + why));
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/key_file_test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/keys/s1.pem";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const Authority blue_ = MakeAuthority("blue", kFileNow);
  const KeyFile file_ = MakeKeyFile(blue_, kServer, kFileNow, kEnd);
  std::string folder_, path_;
};

TEST_F(Files, WhatWasWrittenIsReadForItsOwnerAlone) {
  ASSERT_TRUE(WriteKeyFile(path_, file_).ok());
  struct stat is = {};
  ASSERT_EQ(stat(path_.c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 07777, 0600);
  const absl::StatusOr<KeyFile> read = ReadKeyFile(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->identity, kServer);
  EXPECT_EQ(KeyFilePem(*read), KeyFilePem(file_));
  EXPECT_EQ(read->trust().cluster, "blue");
  EXPECT_EQ(Verify(read->chain, read->trust(), kFileNow).value(), kServer);
}

TEST_F(Files, OneOfARotatedAuthorityKeepsAllRoots) {
  const KeyFile rotated =
      MakeKeyFile(blue_.Rotated(kFileNow, absl::Hours(9)).value(), kServer, kFileNow, kEnd);
  const KeyFile read = ParseKeyFile(KeyFilePem(rotated), "x").value();
  EXPECT_EQ(read.roots.size(), 2);
  EXPECT_EQ(read.RootsPem(), rotated.RootsPem());
  EXPECT_EQ(Verify(file_.chain, read.trust(), kFileNow).value(), kServer);
}

TEST_F(Files, OneOfACompanyWithIntermediatesIsRead) {
  const PrivateKey top = PrivateKey::Make().value(), below = PrivateKey::Make().value();
  const Certificate root =
      MakeCertificate(AuthorityContent("root", kFileNow, kEnd), top, nullptr, top);
  const Certificate middle =
      MakeCertificate(AuthorityContent("middle", kFileNow, kEnd), below, &root, top);
  const Certificate leaf =
      MakeCertificate(MemberContent({ToUri(kServer)}, kFileNow, kEnd), file_.key, &middle, below);
  // The key may come last, and the root anywhere.
  const std::string pem = root.ToPem() + CertificatesToPem({leaf, middle}) + file_.key.ToPem();
  const absl::StatusOr<KeyFile> read = ParseKeyFile(pem, "x");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->chain.size(), 2);
  ASSERT_EQ(read->roots.size(), 1);
  EXPECT_EQ(Verify(read->chain, read->trust(), kFileNow).value(), kServer);
}

TEST_F(Files, AnExpiredOneIsStillRead) {
  const KeyFile old =
      MakeKeyFile(blue_, kServer, kFileNow - absl::Hours(9), kFileNow - absl::Hours(8));
  EXPECT_TRUE(ParseKeyFile(KeyFilePem(old), "x").ok());
}

TEST_F(Files, WhatIsMissingOrDoesNotFitIsNamed) {
  const std::string key = file_.key.ToPem();
  const KeyFile other = MakeKeyFile(blue_, kServer, kFileNow, kEnd);
  ExpectFileRefused("", "there is no private key");
  ExpectFileRefused(file_.ChainPem() + file_.RootsPem(), "there is no private key");
  ExpectFileRefused(key, "there is no certificate");
  ExpectFileRefused(key + file_.RootsPem(), "there is no certificate that an authority has signed");
  ExpectFileRefused(key + file_.ChainPem(), "there is no root certificate of the authority");
  ExpectFileRefused(key + other.ChainPem() + file_.RootsPem(),
                    "the private key does not belong to the first certificate");
  ExpectFileRefused(KeyFilePem(file_) + key, "there is more than one private key");
  ExpectFileRefused(KeyFilePem(file_).substr(0, 1000), "PEM block");
  const Certificate nameless =
      MakeCertificate(MemberContent({}, kFileNow, kEnd), file_.key, &blue_.roots()[0], blue_.key());
  ExpectFileRefused(key + nameless.ToPem() + file_.RootsPem(), "the certificate carries 0 URIs");
}

TEST_F(Files, ErrorsOfFilesNameThePath) {
  EXPECT_EQ(ReadKeyFile(path_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteKeyFile(path_, file_).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  const absl::Status open = ReadKeyFile(path_).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      open.message(),
      absl::StrCat(path_, ": mode 0644 lets others read the secret in it: ", "chmod 600 ", path_));
  ASSERT_TRUE(WritePrivateFile(path_, "hello").ok());
  const absl::Status other = ReadKeyFile(path_).status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other.message(), path_ + ": there is no private key in PEM");
  ASSERT_TRUE(WritePrivateFile(path_, std::string(kPemBytesMax + 1, 'x')).ok());
  EXPECT_EQ(ReadKeyFile(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(Files, ANewCertificateIsDueAfterTwoThirdsOfTheOldOnesLife) {
  EXPECT_EQ(RenewAt(file_.chain[0]), kFileNow + absl::Hours(2));
}

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
