#include "common/keys/certificate_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const std::string& pem, const std::string& why) {
  const absl::Status status = CertificateRequest::FromPem(pem).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
  EXPECT_EQ(ERR_peek_error(), 0) << "an error was left for others to find";
}

// The bytes as a request in PEM.
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
  ExpectRefused(RequestPem(der), "not signed with the key that it holds");
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
  ExpectRefused(RequestPem(der), "not signed with the key that it holds");
}

TEST(CertificateRequest, OtherKindsOfKeysAreRefused) {
  ExpectRefused(RequestOf(KeyPointer(EVP_RSA_gen(2048)).get()), "not ECDSA on P-256");
  ExpectRefused(RequestOf(KeyPointer(EVP_EC_gen("P-384")).get()), "not ECDSA on P-256");
}

TEST(CertificateRequest, NoneSeveralAndDamagedOnesAreRefused) {
  const PrivateKey key = PrivateKey::Make().value();
  const std::string pem = MakeRequestPem(key).value();
  ExpectRefused("", "is one PEM block CERTIFICATE REQUEST");
  ExpectRefused(pem + pem, "is one PEM block CERTIFICATE REQUEST");
  ExpectRefused(key.ToPem(), "is one PEM block CERTIFICATE REQUEST");
  ExpectRefused(pem.substr(0, 100), "damaged or cut off");
  ExpectRefused(RequestPem("no DER"), "the request for a certificate is damaged");
  ExpectRefused(RequestPem(PemBlocks(pem)->front().der + "x"), "is damaged");
  ExpectRefused(std::string(kPemBytesMax + 1, 'x'), "larger than 65536 bytes");
}

}  // namespace
}  // namespace strata::keys
