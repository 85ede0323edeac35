#include "common/keys/private_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ui.h>

#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"

namespace strata::keys {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using UiPointer = OpenSslPointer<UI_METHOD, UI_destroy_method>;

void ExpectPrivateRefused(const std::string& pem, const std::string& why) {
  const absl::Status status = PrivateKey::FromPem(pem).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
  EXPECT_EQ(ERR_peek_error(), 0) << "an error was left for others to find";
}

std::string Pkcs8(const KeyPointer& key, const EVP_CIPHER* cipher = nullptr) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  EXPECT_EQ(
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), cipher, "secret", 6, nullptr, nullptr),
      1);
  return BioText(bio.get());
}

std::string Traditional(const KeyPointer& key, const EVP_CIPHER* cipher = nullptr) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  EXPECT_EQ(PEM_write_bio_PrivateKey_traditional(bio.get(), key.get(), cipher,
                                                 reinterpret_cast<const unsigned char*>("secret"),
                                                 cipher == nullptr ? 0 : 6, nullptr, nullptr),
            1);
  return BioText(bio.get());
}

TEST(PrivateKey, ANewOneIsReadBackFromItsPem) {
  const PrivateKey key = PrivateKey::Make().value();
  const std::string pem = key.ToPem();
  EXPECT_THAT(pem, StartsWith("-----BEGIN PRIVATE KEY-----\n"));
  const PrivateKey read = PrivateKey::FromPem(pem).value();
  EXPECT_EQ(EVP_PKEY_eq(key.get(), read.get()), 1);
  EXPECT_EQ(read.ToPem(), pem);
}

TEST(PrivateKey, TwoNewOnesDiffer) {
  EXPECT_NE(PrivateKey::Make()->ToPem(), PrivateKey::Make()->ToPem());
}

TEST(PrivateKey, KeysOfCompaniesAreRead) {
  for (const char* curve : {"P-256", "P-384", "P-521"}) {
    const KeyPointer key(EVP_EC_gen(curve));
    EXPECT_TRUE(PrivateKey::FromPem(Pkcs8(key)).ok()) << curve;
    EXPECT_TRUE(PrivateKey::FromPem(Traditional(key)).ok()) << curve;
  }
  const KeyPointer rsa(EVP_RSA_gen(2048));
  EXPECT_TRUE(PrivateKey::FromPem(Pkcs8(rsa)).ok());
  EXPECT_TRUE(PrivateKey::FromPem(Traditional(rsa)).ok());
}

TEST(PrivateKey, OtherBlocksAndTextAroundItAreSkipped) {
  const KeyPointer key(EVP_EC_gen("P-256"));
  // As `openssl ecparam -genkey` writes it.
  const std::string parameters =
      "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
  EXPECT_TRUE(PrivateKey::FromPem("# mine\n" + parameters + Traditional(key) + "end\n").ok());
}

TEST(PrivateKey, KindsThatAreTooWeakOrUnknownAreRefused) {
  ExpectPrivateRefused(Pkcs8(KeyPointer(EVP_RSA_gen(1024))), "of a kind that is not supported");
  ExpectPrivateRefused(Pkcs8(KeyPointer(EVP_EC_gen("secp224r1"))),
                       "of a kind that is not supported");
  ExpectPrivateRefused(Pkcs8(KeyPointer(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"))),
                       "of a kind that is not supported");
}

TEST(PrivateKey, ACurveSpelledOutInNumbersIsRefused) {
  const KeyPointer key(EVP_EC_gen("P-256"));
  ASSERT_EQ(EVP_PKEY_set_utf8_string_param(key.get(), "encoding", "explicit"), 1);
  ExpectPrivateRefused(Pkcs8(key), "of a kind that is not supported");
}

bool was_asked = false;
int Ask(UI*) {
  was_asked = true;
  return 0;
}

TEST(PrivateKey, AnEncryptedOneIsRefusedAndNobodyIsAskedForAPassword) {
  const UiPointer asker(UI_create_method("test"));
  UI_method_set_opener(asker.get(), &Ask);
  const UI_METHOD* const usual = UI_get_default_method();
  UI_set_default_method(asker.get());
  const KeyPointer key(EVP_EC_gen("P-256"));
  for (const std::string& pem :
       {Pkcs8(key, EVP_aes_256_cbc()), Traditional(key, EVP_aes_256_cbc())}) {
    ExpectPrivateRefused(pem, "the private key is encrypted: decrypt it first");
  }
  // A label that hides it makes no difference.
  std::string disguised = Pkcs8(key, EVP_aes_256_cbc());
  for (size_t at; (at = disguised.find("ENCRYPTED ")) != std::string::npos;)
    disguised.erase(at, 10);
  ExpectPrivateRefused(disguised, "damaged");
  EXPECT_FALSE(was_asked);
  // The control: OpenSSL's usual way of reading does ask.
  const std::string pem = Pkcs8(key, EVP_aes_256_cbc());
  KeyPointer(PEM_read_bio_PrivateKey(ReadOnlyBio(pem).get(), nullptr, nullptr, nullptr));
  EXPECT_TRUE(was_asked);
  ERR_clear_error();
  UI_set_default_method(usual);
}

TEST(PrivateKey, NoneOrSeveralAreRefused) {
  const std::string pem = PrivateKey::Make()->ToPem();
  ExpectPrivateRefused("", "there is no private key");
  ExpectPrivateRefused("hello", "there is no private key");
  ExpectPrivateRefused(pem + pem, "there is more than one private key");
}

TEST(PrivateKey, ADamagedOneIsRefused) {
  const std::string pem = PrivateKey::Make()->ToPem();
  ExpectPrivateRefused(pem.substr(0, pem.size() - 30), "damaged or cut off");
  std::string changed = pem;
  changed[60] = '!';
  ExpectPrivateRefused(changed, "damaged or cut off");
  ExpectPrivateRefused("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                       "is damaged");
  ExpectPrivateRefused("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
                       "is damaged");
}

TEST(PrivateKey, OneWhosePublicHalfIsAnothersIsRefused) {
  std::string own = PemBlocks(PrivateKey::Make()->ToPem())->front().der;
  const std::string other = PemBlocks(PrivateKey::Make()->ToPem())->front().der;
  ASSERT_EQ(own.size(), other.size());
  own.replace(own.size() - 64, 64, other.substr(other.size() - 64));  // the point comes last
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), PEM_STRING_PKCS8INF, "",
                reinterpret_cast<const unsigned char*>(own.data()), own.size());
  ExpectPrivateRefused(BioText(bio.get()), "is damaged");
}

TEST(PrivateKey, ALargeTextIsRefused) {
  ExpectPrivateRefused(std::string(kPemBytesMax + 1, ' '), "larger than 65536 bytes");
}

}  // namespace
}  // namespace strata::keys
