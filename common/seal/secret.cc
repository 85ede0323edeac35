#include "common/seal/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <cstring>

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

}  // namespace strata::seal
