#include "common/keys/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/obj_mac.h>

#include "common/keys/openssl_pointers.h"
#include "common/keys/verify.h"
#include "common/testing/test_keys.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1800000000);
constexpr absl::Duration kDay = absl::Hours(24);
const Identity kWorker{"blue", Role::kWorker, "w1"};

CertificateRequest Request() {
  return CertificateRequest::FromPem(MakeRequestPem(PrivateKey::Make().value()).value()).value();
}

void ExpectRefused(const std::string& pem, const std::string& why) {
  const absl::Status status = Authority::FromPem(pem).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
}

TEST(Authority, ItsRootSaysWhatARootMustSay) {
  const Authority authority = Authority::Make("blue", kNow, kDay).value();
  ASSERT_EQ(authority.roots().size(), 1);
  const Certificate& root = authority.roots()[0];
  EXPECT_TRUE(root.IsSelfSigned());
  EXPECT_TRUE(root.BelongsTo(authority.key()));
  EXPECT_EQ(root.not_before(), kNow - absl::Hours(1));
  EXPECT_EQ(root.not_after(), kNow + kDay);
  EXPECT_EQ(X509_check_ca(root.get()), 1);
  EXPECT_EQ(X509_get_pathlen(root.get()), 0);
  EXPECT_EQ(X509_get_key_usage(root.get()), X509v3_KU_KEY_CERT_SIGN | X509v3_KU_CRL_SIGN);
  EXPECT_EQ(root.uris().value(), std::vector<std::string>{"spiffe://blue"});
  char subject[100];
  X509_NAME_oneline(X509_get_subject_name(root.get()), subject, sizeof subject);
  EXPECT_STREQ(subject, "/CN=strata blue");
}

TEST(Authority, AClusterWithTheLongestNameHasOne) {
  const std::string longest(64, 'x');
  EXPECT_EQ(Authority::Make(longest, kNow, kDay)->cluster(), longest);
}

TEST(Authority, ABadNameOrNoTimeIsRefused) {
  EXPECT_EQ(Authority::Make("Blue", kNow, kDay).status().code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status status = Authority::Make("blue", kNow, absl::ZeroDuration()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "an authority must be valid for some time");
}

TEST(Authority, OneReadBackIssuesWhatTheRootsOfTheFirstVerify) {
  const Authority made = Authority::Make("blue", kNow, kDay).value();
  const absl::StatusOr<Authority> read = Authority::FromPem(made.ToPem());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->cluster(), "blue");
  EXPECT_EQ(read->ToPem(), made.ToPem());
  const Certificate leaf = read->Issue(Request(), kWorker, kNow, kNow + absl::Hours(1)).value();
  EXPECT_EQ(Verify({leaf}, {"blue", made.roots()}, kNow).value(), kWorker);
}

TEST(Authority, ALeafSaysWhatItsBearerMayDo) {
  const Authority authority = Authority::Make("blue", kNow, kDay).value();
  const CertificateRequest request = Request();
  const Certificate leaf = authority.Issue(request, kWorker, kNow, kNow + absl::Hours(1)).value();
  EXPECT_EQ(leaf.identity().value(), kWorker);
  EXPECT_EQ(leaf.not_before(), kNow);
  EXPECT_EQ(leaf.not_after(), kNow + absl::Hours(1));
  EXPECT_EQ(EVP_PKEY_eq(X509_get0_pubkey(leaf.get()), request.public_key()), 1);
  EXPECT_EQ(X509_check_ca(leaf.get()), 0);
  EXPECT_EQ(X509_get_key_usage(leaf.get()), X509v3_KU_DIGITAL_SIGNATURE);
  EXPECT_EQ(X509_get_extended_key_usage(leaf.get()), XKU_SSL_SERVER | XKU_SSL_CLIENT);
  EXPECT_EQ(X509_check_purpose(leaf.get(), X509_PURPOSE_SSL_SERVER, 0), 1);
  EXPECT_EQ(X509_check_purpose(leaf.get(), X509_PURPOSE_SSL_CLIENT, 0), 1);
}

TEST(Authority, ALeafEndsWithItsRoot) {
  const Authority authority = Authority::Make("blue", kNow, kDay).value();
  EXPECT_EQ(authority.Issue(Request(), kWorker, kNow, kNow + 5 * kDay)->not_after(), kNow + kDay);
}

TEST(Authority, WhatItCannotIssueItRefuses) {
  const Authority authority = Authority::Make("blue", kNow, kDay).value();
  const absl::Time end = kNow + absl::Hours(1);
  const auto refused = [&](const Identity& identity, absl::Time from, absl::Time to) {
    return authority.Issue(Request(), identity, from, to).status();
  };
  const absl::Status other = refused({"red", Role::kWorker, "w1"}, kNow, end);
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other.message(),
            "the authority of cluster blue cannot make a certificate for worker w1 of cluster red");
  const absl::Status name = refused({"blue", Role::kWorker, "w1,URI:spiffe://a"}, kNow, end);
  EXPECT_EQ(name.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(kWorker, kNow, kNow).message(), "a certificate must be valid for some time");
  const absl::Status expired = refused(kWorker, kNow + kDay, kNow + 2 * kDay);
  EXPECT_EQ(expired.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(expired.message(),
            "the authority of cluster blue expired at 2027-01-16T08:00:00Z: make a new one");
}

TEST(Authority, ARotatedOneTrustsOldLeavesAndIssuesNewOnes) {
  const Authority old = Authority::Make("blue", kNow, kDay).value();
  const Authority rotated = old.Rotated(kNow, kDay).value();
  const Certificate old_leaf = old.Issue(Request(), kWorker, kNow, kNow + kDay).value();
  const Certificate new_leaf = rotated.Issue(Request(), kWorker, kNow, kNow + kDay).value();
  const Trust trust{"blue", Authority::FromPem(rotated.ToPem())->roots()};
  ASSERT_EQ(trust.roots.size(), 2);
  EXPECT_EQ(Verify({old_leaf}, trust, kNow).value(), kWorker);
  EXPECT_EQ(Verify({new_leaf}, trust, kNow).value(), kWorker);
  EXPECT_EQ(Verify({new_leaf}, {"blue", old.roots()}, kNow).status().code(),
            absl::StatusCode::kUnauthenticated);
}

TEST(Authority, RotationKeepsTwoOldRootsAndNoneThatHasExpired) {
  const Authority first = Authority::Make("blue", kNow, kDay).value();
  const Authority second = first.Rotated(kNow, kDay).value();
  const Authority third = second.Rotated(kNow, kDay).value();
  const Authority fourth = third.Rotated(kNow, kDay).value();
  ASSERT_EQ(fourth.roots().size(), 3);
  EXPECT_TRUE(fourth.roots()[0].BelongsTo(fourth.key()));
  EXPECT_TRUE(fourth.roots()[1].BelongsTo(third.key()));
  EXPECT_TRUE(fourth.roots()[2].BelongsTo(second.key()));
  EXPECT_EQ(fourth.Rotated(kNow + 2 * kDay, kDay)->roots().size(), 1);
}

TEST(Authority, WhatDoesNotFitTogetherIsRefused) {
  const Authority blue = MakeAuthority("blue", kNow), red = MakeAuthority("red", kNow);
  const KeyFile leaf = MakeKeyFile(blue, kWorker, kNow, kNow + kDay);
  const PrivateKey key = PrivateKey::Make().value();
  const Certificate nameless =
      MakeCertificate(AuthorityContent("x", kNow, kNow + kDay), key, nullptr, key);
  ExpectRefused("", "there is no private key");
  ExpectRefused(blue.RootsPem(), "there is no private key");
  ExpectRefused(blue.key().ToPem(), "there is no certificate");
  ExpectRefused(blue.key().ToPem() + red.RootsPem(), "does not belong to its first root");
  ExpectRefused(blue.ToPem() + red.RootsPem(), "the roots are of two clusters: blue and red");
  ExpectRefused(blue.ToPem() + leaf.ChainPem(), "is not the root of an authority");
  ExpectRefused(leaf.key.ToPem() + leaf.ChainPem(), "is not the root of an authority");
  ExpectRefused(key.ToPem() + nameless.ToPem(), "does not name its cluster");
  ExpectRefused(blue.ToPem() + key.ToPem(), "more than one private key");
}

TEST(Authority, ASelfSignedCertificateThatMaySignNothingIsNoRoot) {
  const PrivateKey key = PrivateKey::Make().value();
  const CertificateContent content = MemberContent({"spiffe://blue"}, kNow, kNow + kDay);
  ExpectRefused(key.ToPem() + MakeCertificate(content, key, nullptr, key).ToPem(),
                "is not the root of an authority");
}

TEST(Authority, ARootWithAWrongSignatureIsRefused) {
  const Authority blue = MakeAuthority("blue", kNow);
  ExpectRefused(blue.key().ToPem() + WithWrongSignature(blue.roots()[0]).ToPem(),
                "is not the root of an authority");
}

TEST(Authority, TheLongestNameIsIssuedAndReadBack) {
  const Authority blue = MakeAuthority("blue", kNow);
  const Identity identity{"blue", Role::kWorker, std::string(255, 'x')};
  const KeyFile file = MakeKeyFile(blue, identity, kNow, kNow + absl::Hours(1));
  EXPECT_EQ(file.chain[0].identity().value(), identity);
}

}  // namespace
}  // namespace strata::keys
