#include "common/keys/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/obj_mac.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/keys/openssl_pointers.h"
#include "common/testing/test_keys.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

const absl::Time kVerifyNow = absl::FromUnixSeconds(1800000000);  // 2027-01-15T08:00:00Z
const absl::Time kVerifyEnd = kVerifyNow + absl::Hours(3);
const Identity kVerifyWorker{"blue", Role::kWorker, "w1"};
const std::string kWorkerUri = "spiffe://blue/worker/w1";

class Verification : public testing::Test {
 protected:
  // A certificate of a member, signed with the authority's own key.
  Certificate Leaf(const CertificateContent& content) {
    return MakeCertificate(content, key_, &blue_.roots()[0], blue_.key());
  }

  void ExpectRefused(const std::vector<Certificate>& chain, const std::string& why,
                     absl::Time now = kVerifyNow) {
    ExpectRefusedBy({"blue", blue_.roots()}, chain, why, now);
  }
  void ExpectRefusedBy(const Trust& trust, const std::vector<Certificate>& chain,
                       const std::string& why, absl::Time now = kVerifyNow) {
    const absl::Status status = Verify(chain, trust, now).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
    EXPECT_EQ(ERR_peek_error(), 0) << "an error was left for others to find";
  }

  const Authority blue_ = MakeAuthority("blue", kVerifyNow);
  const PrivateKey key_ = PrivateKey::Make().value();
  const KeyFile worker_ = MakeKeyFile(blue_, kVerifyWorker, kVerifyNow, kVerifyEnd);
};

TEST_F(Verification, AMemberIsWhoItSaysFromTheFirstSecondToTheLast) {
  for (const absl::Time now : {kVerifyNow, kVerifyEnd - absl::Seconds(1)}) {
    const absl::StatusOr<Identity> identity = Verify(worker_.chain, worker_.trust(), now);
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ(*identity, kVerifyWorker);
  }
}

TEST_F(Verification, AnExpiredCertificateIsRefused) {
  ExpectRefused(worker_.chain,
                "the certificate of worker w1 expired at 2027-01-15T11:00:00Z: `strata keys token "
                "worker` on the coordinator's host makes a token for a new one",
                kVerifyEnd);
}

TEST_F(Verification, OneOfTheFutureIsRefusedWithBothTimes) {
  ExpectRefused(worker_.chain,
                "the certificate of worker w1 is valid only from 2027-01-15T08:00:00Z, and this "
                "host's clock says 2027-01-15T07:59:59Z: set the clocks",
                kVerifyNow - absl::Seconds(1));
  const absl::Status status = Verify(worker_.chain, worker_.trust(), kVerifyNow - absl::Seconds(1),
                                     {.clock = "the coordinator's clock"})
                                  .status();
  EXPECT_THAT(status.message(), HasSubstr(", and the coordinator's clock says 2027-01-15T07:59"));
}

TEST_F(Verification, AnExpiredAuthorityIsNamedAsSuch) {
  ExpectRefused(
      {Leaf(MemberContent({kWorkerUri}, kVerifyNow, kVerifyNow + absl::Hours(24 * 60)))},
      "the authority that signed the certificate of worker w1 expired at "
      "2027-02-14T08:00:00Z: a new one (of `strata keys rotate-ca`, unless it is your own) has "
      "to issue new certificates",
      kVerifyNow + absl::Hours(24 * 31));
}

TEST_F(Verification, AnotherAuthorityIsRefusedAlsoOneOfTheSameName) {
  for (const char* cluster : {"red", "blue"}) {
    const Authority other = MakeAuthority(cluster, kVerifyNow);
    const KeyFile forged =
        MakeKeyFile(other, {cluster, Role::kUser, "eve"}, kVerifyNow, kVerifyEnd);
    const std::string why =
        absl::StrCat("the certificate of user eve is of another cluster or authority (fingerprint ",
                     FingerprintText(forged.chain[0].fingerprint()), ")");
    ExpectRefused(forged.chain, why);
    // Sending the forger's root along does not help.
    ExpectRefused({forged.chain[0], other.roots()[0]}, why);
  }
}

TEST_F(Verification, ASelfSignedCertificateIsRefusedAlsoWhereItIsATrustedRoot) {
  const Certificate own =
      MakeCertificate(MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd), key_, nullptr, key_);
  ExpectRefused({own}, "is of another cluster or authority");
  ExpectRefusedBy({"blue", {own}}, {own}, "is of another cluster or authority");
}

TEST_F(Verification, NobodyIsBelievedWithoutRoots) {
  ExpectRefusedBy({"blue", {}}, worker_.chain, "is of another cluster or authority");
}

TEST_F(Verification, AnIntermediateIsNoRoot) {
  const PrivateKey key = PrivateKey::Make().value();
  const Certificate root =
      MakeCertificate(AuthorityContent("root", kVerifyNow, kVerifyEnd), key, nullptr, key);
  const Certificate middle =
      MakeCertificate(AuthorityContent("middle", kVerifyNow, kVerifyEnd), key_, &root, key);
  const Certificate leaf = MakeCertificate(MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd),
                                           worker_.key, &middle, key_);
  EXPECT_EQ(Verify({leaf, middle}, {"blue", {root}}, kVerifyNow).value(), kVerifyWorker);
  ExpectRefusedBy({"blue", {root}}, {leaf}, "is of another cluster or authority");
  ExpectRefusedBy({"blue", {middle}}, {leaf}, "is of another cluster or authority");
}

TEST_F(Verification, AChangedCertificateIsRefused) {
  ExpectRefused({WithWrongSignature(worker_.chain[0])},
                "the certificate of worker w1 has a wrong signature");
}

TEST_F(Verification, AMemberCannotSignForOthers) {
  CertificateContent content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  const Certificate leaf = MakeCertificate(content, key_, &worker_.chain[0], worker_.key);
  ExpectRefused({leaf, worker_.chain[0]}, "was signed with a certificate that may not sign others");
}

TEST_F(Verification, AnAuthorityBelowTheClustersOwnIsRefused) {
  // Its root may sign members only (pathlen 0).
  const PrivateKey key = PrivateKey::Make().value();
  const Certificate middle = MakeCertificate(AuthorityContent("middle", kVerifyNow, kVerifyEnd),
                                             key, &blue_.roots()[0], blue_.key());
  const Certificate leaf =
      MakeCertificate(MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd), key_, &middle, key);
  ExpectRefused({leaf, middle}, "was signed with a certificate that may not sign others");
}

TEST_F(Verification, ASignerWithoutBasicConstraintsIsRefused) {
  CertificateContent content = AuthorityContent("old", kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_basic_constraints, "");
  const PrivateKey key = PrivateKey::Make().value();
  const Certificate root = MakeCertificate(content, key, nullptr, key);
  const Certificate leaf =
      MakeCertificate(MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd), key_, &root, key);
  ExpectRefusedBy({"blue", {root}}, {leaf}, "is of another cluster or authority");
}

TEST_F(Verification, AnAuthoritysOwnCertificateIsNoMembers) {
  ExpectRefused({blue_.roots()[0]}, "its certificate is an authority's own (fingerprint ");
  CertificateContent content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_basic_constraints, "critical,CA:TRUE");
  ExpectRefused({Leaf(content)}, "its certificate is an authority's own (fingerprint ");
}

TEST_F(Verification, OneThatDoesNotSayWhoItIsIsRefused) {
  ExpectRefused({Leaf(MemberContent({}, kVerifyNow, kVerifyEnd))},
                "does not say who it is: the certificate carries 0 URIs");
  ExpectRefused(
      {Leaf(MemberContent({kWorkerUri, "spiffe://blue/user/root"}, kVerifyNow, kVerifyEnd))},
      "does not say who it is: the certificate carries 2 URIs");
  ExpectRefused({Leaf(MemberContent({"https://example.org"}, kVerifyNow, kVerifyEnd))},
                "does not say who it is: \"https://example.org\" is no identity");
}

TEST_F(Verification, AnotherClustersMemberIsRefusedWhereOneAuthoritySignsForBoth) {
  ExpectRefused({Leaf(MemberContent({"spiffe://red/worker/w1"}, kVerifyNow, kVerifyEnd))},
                "the certificate of worker w1 is of cluster red, and this is cluster blue");
}

TEST_F(Verification, OneThatIsNotForTlsIsRefused) {
  CertificateContent content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_key_usage, "critical,keyEncipherment");
  ExpectRefused({Leaf(content)},
                "the certificate of worker w1 is not for TLS: it needs the key "
                "usage digitalSignature");
  content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_ext_key_usage, "codeSigning");
  ExpectRefused({Leaf(content)}, "extended key usage serverAuth and clientAuth");
}

TEST_F(Verification, OnlyAUsersMayBeForClientsAlone) {
  CertificateContent content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_ext_key_usage, "clientAuth");
  ExpectRefused({Leaf(content)}, "is not for TLS");
  content = MemberContent({"spiffe://blue/user/ann"}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_ext_key_usage, "clientAuth");
  EXPECT_EQ(Verify({Leaf(content)}, {"blue", blue_.roots()}, kVerifyNow)->name, "ann");
  SetExtension(content, NID_ext_key_usage, "serverAuth");
  ExpectRefused({Leaf(content)}, "extended key usage clientAuth");
}

TEST_F(Verification, OneWithoutLimitsOfUseIsForTls) {
  CertificateContent content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_ext_key_usage, "");
  SetExtension(content, NID_key_usage, "");
  EXPECT_EQ(Verify({Leaf(content)}, {"blue", blue_.roots()}, kVerifyNow).value(), kVerifyWorker);
}

TEST_F(Verification, AnUnknownCriticalExtensionIsRefused) {
  CertificateContent content = MemberContent({kWorkerUri}, kVerifyNow, kVerifyEnd);
  SetExtension(content, NID_netscape_comment, "critical,hello");
  ExpectRefused({Leaf(content)}, "the certificate of worker w1 is not acceptable");
}

TEST_F(Verification, WhatToDoIsWhatTheMembersRoleCanDo) {
  const auto made = [&](Role role, const std::string& name) {
    return Leaf(MemberContent({ToUri({"blue", role, name})}, kVerifyNow, kVerifyEnd));
  };
  const std::string makes = " on the coordinator's host makes a token for a new one";
  ExpectRefused({made(Role::kUser, "ada")}, "11:00:00Z: `strata keys user ada`" + makes,
                kVerifyEnd);
  ExpectRefused({made(Role::kServer, "s1")}, "11:00:00Z: `strata keys token server`" + makes,
                kVerifyEnd);
  ExpectRefused({made(Role::kCoordinator, "c")}, "11:00:00Z: what it says when it is started",
                kVerifyEnd);
  // A member connects to a coordinator that it does not know: its own keys are wrong, or the
  // address is.
  ExpectRefusedBy({"blue", {}}, {made(Role::kCoordinator, "c")},
                  "): look whether it is the right coordinator; then name its keys with --keys");
  ExpectRefusedBy({"blue", {}}, {made(Role::kUser, "ada")}, "): `strata keys user ada`" + makes);
}

TEST_F(Verification, WhereAnotherAuthorityIssuesNoTokenIsSpokenOf) {
  const Judge judge{.makes_tokens = false};
  const std::string issues =
      "your own authority issues a new one, and `strata keys import` makes a key file of it";
  const absl::Status expired = Verify(worker_.chain, worker_.trust(), kVerifyEnd, judge).status();
  EXPECT_EQ(expired.message(),
            "the certificate of worker w1 expired at 2027-01-15T11:00:00Z: " + issues);
  for (const auto& [chain, trust] : {std::pair(worker_.chain, Trust{"blue", {}}),
                                     std::pair(worker_.chain, Trust{"red", blue_.roots()}),
                                     std::pair(blue_.roots(), worker_.trust())}) {
    const absl::Status status = Verify(chain, trust, kVerifyNow, judge).status();
    EXPECT_THAT(status.message(), HasSubstr(issues));
  }
}

TEST_F(Verification, AnEmptyChainIsRefused) { ExpectRefused({}, "it showed no certificate"); }

}  // namespace
}  // namespace strata::keys
