#ifndef STRATA_COMMON_KEYS_TESTING_ODD_CERTIFICATES_H_
#define STRATA_COMMON_KEYS_TESTING_ODD_CERTIFICATES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/keys/certificate.h"
#include "common/keys/private_key.h"
#include "common/keys/signed_certificate.h"

namespace strata::keys {

// Certificates that Authority does not make: those of companies, of forgers, and damaged ones. A
// failure to make one aborts the test.

// What a member's certificate says, with any URIs, also none.
CertificateContent MemberContent(const std::vector<std::string>& uris, absl::Time not_before,
                                 absl::Time not_after);
// What an authority's says; it may sign authorities below it.
CertificateContent AuthorityContent(const std::string& subject, absl::Time not_before,
                                    absl::Time not_after);
// Gives an extension another value; "" takes it away.
void SetExtension(CertificateContent& content, int number, const std::string& value);

// Null `issuer`: self-signed, with `issuer_key` as its own key.
Certificate MakeCertificate(const CertificateContent& content, const PrivateKey& key,
                            const Certificate* issuer, const PrivateKey& issuer_key);

// The same certificate with one bit of its signature changed.
Certificate WithWrongSignature(const Certificate& certificate);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_TESTING_ODD_CERTIFICATES_H_
