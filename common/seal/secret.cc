#include "common/seal/secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/require.h"

namespace strata::seal {
namespace {

template <typename Bytes>
Bytes Random() {
  Bytes bytes;
  STRATA_REQUIRE(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                            static_cast<int>(bytes.size())) == 1);
  return bytes;
}

}  // namespace

Secret NewSecret() { return Random<Secret>(); }
Salt NewSalt() { return Random<Salt>(); }

absl::StatusOr<Secret> SecretFromBytes(absl::string_view bytes) {
  if (bytes.size() != kSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a secret has ", kSecretBytes, " bytes, not ", bytes.size()));
  }
  Secret secret;
  std::memcpy(secret.data(), bytes.data(), secret.size());
  return secret;
}

void Wipe(Secret* secret) { OPENSSL_cleanse(secret->data(), secret->size()); }

namespace {

struct FreeDerivation {
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};

// OpenSSL takes what it only reads as not const.
OSSL_PARAM Octets(const char* name, const void* data, size_t size) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(data), size);
}

}  // namespace

void Hkdf(absl::Span<const std::byte> secret, absl::Span<const std::byte> salt,
          absl::string_view info, absl::Span<std::byte> key) {
  static EVP_KDF* const algorithm = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  STRATA_REQUIRE(algorithm != nullptr);
  const std::unique_ptr<EVP_KDF_CTX, FreeDerivation> context(EVP_KDF_CTX_new(algorithm));
  char digest[] = "SHA256";
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      Octets(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      Octets(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      Octets(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
      OSSL_PARAM_construct_end(),
  };
  // An empty salt is the default, which OpenSSL does not take as a parameter.
  if (salt.empty()) parameters[3] = OSSL_PARAM_construct_end();
  STRATA_REQUIRE(context != nullptr &&
                 EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()),
                                key.size(), parameters) == 1);
}

}  // namespace strata::seal
