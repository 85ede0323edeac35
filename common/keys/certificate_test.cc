#include "common/keys/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/obj_mac.h>
#include <openssl/pem.h>

#include "absl/strings/str_cat.h"
#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"
#include "common/testing/test_keys.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

const absl::Time kCertificateNow = absl::FromUnixSeconds(1800000000);  // 2027-01-15T08:00:00Z
const Identity kCertificateWorker{"blue", Role::kWorker, "w1"};

Certificate SelfSigned(const CertificateContent& content) {
  const PrivateKey key = PrivateKey::Make().value();
  return MakeCertificate(content, key, nullptr, key);
}

TEST(Certificate, WhatItSaysIsReadBackFromItsPem) {
  const Authority authority = MakeAuthority("blue", kCertificateNow);
  const KeyFile file =
      MakeKeyFile(authority, kCertificateWorker, kCertificateNow, kCertificateNow + absl::Hours(3));
  const std::string pem = file.chain[0].ToPem();
  const Certificate read = Certificate::FromPem(pem).value();
  EXPECT_EQ(read.identity().value(), kCertificateWorker);
  EXPECT_EQ(read.not_before(), kCertificateNow);
  EXPECT_EQ(read.not_after(), kCertificateNow + absl::Hours(3));
  EXPECT_EQ(read.ToPem(), pem);
  EXPECT_EQ(read.fingerprint(), file.chain[0].fingerprint());
  EXPECT_EQ(read.serial(), file.chain[0].serial());
  EXPECT_FALSE(read.IsSelfSigned());
  EXPECT_FALSE(read.IsAuthority());
  EXPECT_TRUE(read.BelongsTo(file.key));
  EXPECT_FALSE(read.BelongsTo(authority.key()));
  EXPECT_TRUE(authority.roots()[0].IsSelfSigned());
  EXPECT_TRUE(authority.roots()[0].IsAuthority());
}

TEST(Certificate, TimesBeyond2050AreReadBack) {
  const absl::Time late =
      absl::FromCivil(absl::CivilSecond(2123, 4, 5, 6, 7, 8), absl::UTCTimeZone());
  const Certificate made = SelfSigned(AuthorityContent("late", kCertificateNow, late));
  EXPECT_EQ(Certificate::FromPem(made.ToPem())->not_after(), late);
  EXPECT_EQ(TimeText(late), "2123-04-05T06:07:08Z");
}

TEST(Certificate, TheFingerprintIsSha256OfTheDerForm) {
  const Certificate root = MakeAuthority("blue", kCertificateNow).roots()[0];
  const std::string der = PemBlocks(root.ToPem())->front().der;
  std::string digest(32, '\0');
  EVP_Digest(der.data(), der.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha256(), nullptr);
  EXPECT_EQ(root.fingerprint(), digest);
  EXPECT_EQ(FingerprintText(std::string("\x01\xab", 2)), "01ab");
}

TEST(Certificate, SerialNumbersAreRandomHexadecimalDigits) {
  const std::string one = MakeAuthority("blue", kCertificateNow).roots()[0].serial();
  const std::string two = MakeAuthority("blue", kCertificateNow).roots()[0].serial();
  EXPECT_NE(one, two);
  EXPECT_GT(one.size(), 20);
  EXPECT_LE(one.size(), 32);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos) << one;
}

TEST(Certificate, OneWithoutAUriOrWithTwoHasNoIdentity) {
  const absl::Time end = kCertificateNow + absl::Hours(1);
  for (const std::vector<std::string>& uris :
       {std::vector<std::string>(),
        std::vector<std::string>{"spiffe://blue/worker/w1", "spiffe://blue/worker/w2"}}) {
    const Certificate made = SelfSigned(MemberContent(uris, kCertificateNow, end));
    EXPECT_EQ(made.uris()->size(), uris.size());
    const absl::Status status = made.identity().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("carries ", uris.size(), " URIs")));
  }
  const absl::Status other =
      SelfSigned(MemberContent({"https://example.org/"}, kCertificateNow, end)).identity().status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), HasSubstr("\"https://example.org/\" is no identity"));
}

TEST(Certificate, NamesOfOtherKindsBesideTheUriDoNotCount) {
  CertificateContent content = MemberContent({}, kCertificateNow, kCertificateNow + absl::Hours(1));
  SetExtension(content, NID_subject_alt_name,
               "DNS:w1.example.org,URI:spiffe://blue/worker/w1,IP:10.0.0.1");
  EXPECT_EQ(SelfSigned(content).identity().value(), kCertificateWorker);
}

TEST(Certificate, AUriWithAZeroByteIsNoIdentity) {
  const PrivateKey key = PrivateKey::Make().value();
  const Certificate made =
      MakeCertificate(MemberContent({"spiffe://blue/worker/w1_x"}, kCertificateNow,
                                    kCertificateNow + absl::Hours(1)),
                      key, nullptr, key);
  std::string der = PemBlocks(made.ToPem())->front().der;
  der[der.find("w1_x") + 2] = '\0';
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), PEM_STRING_X509, "", reinterpret_cast<const unsigned char*>(der.data()),
                der.size());
  const absl::StatusOr<Certificate> read = Certificate::FromPem(BioText(bio.get()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->identity().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Certificate, SeveralAreReadInTheirOrder) {
  const Certificate one = MakeAuthority("blue", kCertificateNow).roots()[0];
  const Certificate two = MakeAuthority("red", kCertificateNow).roots()[0];
  const std::string pem = CertificatesToPem({one, two});
  const std::vector<Certificate> read = CertificatesFromPem("a note\n" + pem + "end").value();
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[0].fingerprint(), one.fingerprint());
  EXPECT_EQ(read[1].fingerprint(), two.fingerprint());
  EXPECT_EQ(Certificate::FromPem(pem)->fingerprint(), one.fingerprint());
}

TEST(Certificate, NoneTooManyAndDamagedOnesAreRefused) {
  const Authority authority = MakeAuthority("blue", kCertificateNow);
  const std::string pem = authority.RootsPem();
  std::string many;
  for (size_t i = 0; i < kCertificatesMax; ++i) many += pem;
  EXPECT_EQ(CertificatesFromPem(many)->size(), kCertificatesMax);
  const std::string bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "there is no certificate"},
      {authority.key().ToPem(), "there is no certificate"},
      {many + pem, "there are more than 16 certificates"},
      {pem + bad, "certificate 2 is damaged"},
      {pem + pem.substr(0, 100), "PEM block 2 is damaged or cut off"},
      {std::string(kPemBytesMax + 1, 'x'), "larger than 65536 bytes"},
  };
  for (const auto& [text, why] : wrong) {
    const absl::Status status = CertificatesFromPem(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(ERR_peek_error(), 0) << "an error was left for others to find";
  }
  EXPECT_THAT(Certificate::FromPem("").status().message(), HasSubstr("there is no certificate"));
  EXPECT_THAT(Certificate::FromPem(bad).status().message(), HasSubstr("is damaged"));
}

TEST(Certificate, BytesAfterItInItsBlockAreRefused) {
  const std::string der =
      PemBlocks(MakeAuthority("blue", kCertificateNow).RootsPem())->front().der + "x";
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), PEM_STRING_X509, "", reinterpret_cast<const unsigned char*>(der.data()),
                der.size());
  EXPECT_EQ(Certificate::FromPem(BioText(bio.get())).status().message(),
            "the certificate is damaged: it cannot be read");
}

TEST(Certificate, OneFromOpenSslOutlivesTheOriginal) {
  const Certificate made = MakeAuthority("blue", kCertificateNow).roots()[0];
  CertificatePointer original(X509_dup(made.get()));
  const Certificate shared = Certificate::FromX509(original.get()).value();
  original.reset();
  EXPECT_EQ(shared.fingerprint(), made.fingerprint());
}

void ExpectCertificateRequestRefused(const std::string& pem, const std::string& why) {
  const absl::Status status = CertificateRequest::FromPem(pem).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
  EXPECT_EQ(ERR_peek_error(), 0) << "an error was left for others to find";
}

// Returns the bytes as a request in PEM.
std::string RequestPem(const std::string& der) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), PEM_STRING_X509_REQ, "",
                reinterpret_cast<const unsigned char*>(der.data()), der.size());
  return BioText(bio.get());
}

std::string RequestOf(EVP_PKEY* key) {
  const RequestPointer request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key);
  EXPECT_GT(X509_REQ_sign(request.get(), key, EVP_sha256()), 0);
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(bio.get(), request.get());
  return BioText(bio.get());
}

TEST(CertificateRequest, ItsKeyIsReadBack) {
  const PrivateKey key = PrivateKey::Make().value();
  const auto request = CertificateRequest::FromPem(MakeRequestPem(key).value());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(EVP_PKEY_eq(request->public_key(), key.get()), 1);
}

TEST(CertificateRequest, OneWithAWrongSignatureIsRefused) {
  std::string der = PemBlocks(MakeRequestPem(PrivateKey::Make().value()).value())->front().der;
  der.back() ^= 1;
  ExpectCertificateRequestRefused(RequestPem(der), "not signed with the key that it holds");
}

TEST(CertificateRequest, OneForSomebodyElsesKeyIsRefused) {
  const std::string own = MakeRequestPem(PrivateKey::Make().value()).value();
  const std::string other = MakeRequestPem(PrivateKey::Make().value()).value();
  std::string der = PemBlocks(own)->front().der;
  const std::string point = PemBlocks(other)->front().der;
  // The uncompressed point follows the curve's name.
  const std::string curve("\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04", 14);
  const size_t at = der.find(curve) + curve.size();
  ASSERT_GT(at, curve.size());
  der.replace(at, 64, point.substr(point.find(curve) + curve.size(), 64));
  ExpectCertificateRequestRefused(RequestPem(der), "not signed with the key that it holds");
}

TEST(CertificateRequest, OtherKindsOfKeysAreRefused) {
  ExpectCertificateRequestRefused(RequestOf(KeyPointer(EVP_RSA_gen(2048)).get()),
                                  "not ECDSA on P-256");
  ExpectCertificateRequestRefused(RequestOf(KeyPointer(EVP_EC_gen("P-384")).get()),
                                  "not ECDSA on P-256");
}

TEST(CertificateRequest, NoneSeveralAndDamagedOnesAreRefused) {
  const PrivateKey key = PrivateKey::Make().value();
  const std::string pem = MakeRequestPem(key).value();
  ExpectCertificateRequestRefused("", "is one PEM block CERTIFICATE REQUEST");
  ExpectCertificateRequestRefused(pem + pem, "is one PEM block CERTIFICATE REQUEST");
  ExpectCertificateRequestRefused(key.ToPem(), "is one PEM block CERTIFICATE REQUEST");
  ExpectCertificateRequestRefused(pem.substr(0, 100), "damaged or cut off");
  ExpectCertificateRequestRefused(RequestPem("no DER"), "the request for a certificate is damaged");
  ExpectCertificateRequestRefused(RequestPem(PemBlocks(pem)->front().der + "x"), "is damaged");
  ExpectCertificateRequestRefused(std::string(kPemBytesMax + 1, 'x'), "larger than 65536 bytes");
}

}  // namespace
}  // namespace strata::keys
