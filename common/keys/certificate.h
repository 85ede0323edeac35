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

// A certificate. Copies share its content, which never changes: any thread may use it. What it says
// is a claim until Verify has held it against a root.
class Certificate {
 public:
  // Reads the first certificate of a PEM text and skips other blocks. Errors: InvalidArgument: no
  // certificate, or a damaged one.
  static absl::StatusOr<Certificate> FromPem(absl::string_view pem);
  // Shares a certificate that OpenSSL holds, as one of a connection. Errors: InvalidArgument: its
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

  // True: its own key has signed it.
  bool IsSelfSigned() const;
  // True: it may sign other certificates.
  bool IsAuthority() const;
  // True: it is the certificate of that key.
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

inline constexpr size_t kCertificatesMax = 16;  // in one text

// Reads all certificates of a PEM text, 1 to kCertificatesMax, and skips other blocks. Errors:
// InvalidArgument: none, too many, a damaged one, or a text above kPemBytesMax (pem.h).
absl::StatusOr<std::vector<Certificate>> CertificatesFromPem(absl::string_view pem);

// The certificates as one PEM text, in their order.
std::string CertificatesToPem(const std::vector<Certificate>& certificates);

// The fingerprint as people see it, in lower-case hexadecimal digits.
std::string FingerprintText(absl::string_view fingerprint);

// A time as messages about certificates show it: "2026-11-25T17:43:30Z".
std::string TimeText(absl::Time time);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_CERTIFICATE_H_
