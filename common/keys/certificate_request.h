#ifndef STRATA_COMMON_KEYS_CERTIFICATE_REQUEST_H_
#define STRATA_COMMON_KEYS_CERTIFICATE_REQUEST_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/keys/private_key.h"

namespace strata::keys {

// A public key whose owner has proved to hold the private key, for which Authority::Issue makes a
// certificate. Nothing else of the request counts: who its sender is, the token says.
class CertificateRequest {
 public:
  // Reads the one PKCS #10 request of a PEM text. Errors: InvalidArgument: none, several, a damaged
  // one, a key that is not ECDSA on P-256, a wrong signature, or a text above kPemBytesMax (pem.h).
  static absl::StatusOr<CertificateRequest> FromPem(absl::string_view pem);

  // The public key lives as long as a copy of this object does.
  evp_pkey_st* public_key() const { return public_key_.get(); }

 private:
  explicit CertificateRequest(std::shared_ptr<evp_pkey_st> public_key)
      : public_key_(std::move(public_key)) {}

  std::shared_ptr<evp_pkey_st> public_key_;
};

// A request for a certificate of this key. Errors: Internal: the key cannot sign.
absl::StatusOr<std::string> MakeRequestPem(const PrivateKey& key);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_CERTIFICATE_REQUEST_H_
