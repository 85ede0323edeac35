#ifndef STRATA_COMMON_KEYS_CERTIFICATE_H_
#define STRATA_COMMON_KEYS_CERTIFICATE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/keys/identity.h"
#include "common/keys/private_key.h"

struct x509_st;  // X509 of OpenSSL

namespace strata::keys {

// A certificate. Copies share its content, which never changes: any thread may use it. Its content
// is a claim until Verify has checked it against a root.
class Certificate {
 public:
  // Reads the first certificate of a PEM text and skips other blocks. Errors: InvalidArgument: no
  // certificate, or a damaged one.
  static absl::StatusOr<Certificate> FromPem(absl::string_view pem);
  // Shares a certificate held by OpenSSL, such as a connection's. Errors: InvalidArgument: its
  // times or its key cannot be read.
  static absl::StatusOr<Certificate> FromX509(x509_st* certificate);

  std::string ToPem() const;

  // Errors: InvalidArgument: it does not carry exactly one URI, or the URI is no identity.
  absl::StatusOr<Identity> identity() const;
  // All URIs that it carries. Errors: InvalidArgument: they cannot be read.
  absl::StatusOr<std::vector<std::string>> uris() const;

  absl::Time not_before() const { return not_before_; }
  absl::Time not_after() const { return not_after_; }

  // SHA-256 of its DER form, 32 bytes.
  std::string fingerprint() const;
  // The serial number in lower-case hexadecimal digits.
  std::string serial() const;

  // Returns whether its own key has signed it.
  bool IsSelfSigned() const;
  // Returns whether it may sign other certificates.
  bool IsAuthority() const;
  // Returns whether it is the certificate of that key.
  bool BelongsTo(const PrivateKey& key) const;

  // The certificate lives as long as a copy of this object does.
  x509_st* get() const { return certificate_.get(); }

 private:
  Certificate(std::shared_ptr<x509_st> certificate, absl::Time not_before, absl::Time not_after)
      : certificate_(std::move(certificate)), not_before_(not_before), not_after_(not_after) {}

  std::shared_ptr<x509_st> certificate_;
  absl::Time not_before_;
  absl::Time not_after_;
};

inline constexpr size_t kCertificatesMax = 16;  // per text

// Reads all certificates of a PEM text, 1 to kCertificatesMax, and skips other blocks. Errors:
// InvalidArgument: none, too many, a damaged one, or a text above kPemBytesMax (pem.h).
absl::StatusOr<std::vector<Certificate>> CertificatesFromPem(absl::string_view pem);

// The certificates as one PEM text, in their order.
std::string CertificatesToPem(const std::vector<Certificate>& certificates);

// The fingerprint as people see it, in lower-case hexadecimal digits.
std::string FingerprintText(absl::string_view fingerprint);

// A time as messages about certificates show it: "2026-11-25T17:43:30Z".
std::string TimeText(absl::Time time);

// A public key whose owner has proved possession of the private key; Authority::Issue makes a
// certificate for it. Nothing else in the request counts: the token identifies its sender.
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

// The content of a new certificate, for Authority and for tests that need unusual ones.
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

#endif  // STRATA_COMMON_KEYS_CERTIFICATE_H_
