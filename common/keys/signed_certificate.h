#ifndef STRATA_COMMON_KEYS_SIGNED_CERTIFICATE_H_
#define STRATA_COMMON_KEYS_SIGNED_CERTIFICATE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/keys/certificate.h"
#include "common/keys/private_key.h"

namespace strata::keys {

// What a new certificate says. It is for Authority, and for tests that need odd ones.
struct CertificateContent {
  std::string subject;  // the common name, 1 to 64 characters
  absl::Time not_before;
  absl::Time not_after;
  // Each has a number of OpenSSL, as NID_key_usage, and a value as of x509v3_config(5). The
  // identifiers of the subject's and the issuer's keys are added to them.
  std::vector<std::pair<int, std::string>> extensions;
};

// A certificate for a public key with a random serial number of 128 bits, signed by the issuer.
// Null `issuer`: it is a root, and `issuer_key` is its own key. Errors: Internal: a value that does
// not fit, or the system has no randomness.
absl::StatusOr<Certificate> SignCertificate(const CertificateContent& content,
                                            evp_pkey_st* public_key, const Certificate* issuer,
                                            const PrivateKey& issuer_key);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_SIGNED_CERTIFICATE_H_
