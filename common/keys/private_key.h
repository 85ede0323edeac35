#ifndef STRATA_COMMON_KEYS_PRIVATE_KEY_H_
#define STRATA_COMMON_KEYS_PRIVATE_KEY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct evp_pkey_st;  // EVP_PKEY of OpenSSL

namespace strata::keys {

// A private key. Copies share the key, which never changes: any thread may use it.
class PrivateKey {
 public:
  // A new key, ECDSA on P-256. Errors: Internal: the system has no randomness.
  static absl::StatusOr<PrivateKey> Make();

  // Reads the one private key of a PEM text and skips other blocks. It may be ECDSA on P-256, P-384
  // or P-521, or RSA of 2048 to 8192 bits, and never asks for a password. Errors: InvalidArgument:
  // no key, several, an encrypted one, another kind, or a damaged one.
  static absl::StatusOr<PrivateKey> FromPem(absl::string_view pem);

  // PKCS #8, not encrypted.
  std::string ToPem() const;

  // The key lives as long as a copy of this object does.
  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;
};

// Returns whether it is ECDSA on P-256, by the curve's name. Curves with explicit parameters are
// refused, since those may be anything.
bool IsP256(const evp_pkey_st* key);

// Returns whether it is ECDSA on P-256, P-384 or P-521, or RSA of 2048 to 8192 bits: the keys that
// companies' authorities issue, and none so large that a handshake takes seconds.
bool IsUsableKey(const evp_pkey_st* key);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_PRIVATE_KEY_H_
