#include "common/keys/issue_key_file.h"

#include <string>

#include "common/keys/certificate_request.h"
#include "common/keys/private_key.h"

namespace strata::keys {

absl::StatusOr<KeyFile> IssueKeyFile(const Authority& authority, const Identity& identity,
                                     absl::Time not_before, absl::Time not_after) {
  const absl::StatusOr<PrivateKey> key = PrivateKey::Make();
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> pem = MakeRequestPem(*key);
  if (!pem.ok()) return pem.status();
  const absl::StatusOr<CertificateRequest> request = CertificateRequest::FromPem(*pem);
  if (!request.ok()) return request.status();
  const auto certificate = authority.Issue(*request, identity, not_before, not_after);
  if (!certificate.ok()) return certificate.status();
  return KeyFile{*key, {*certificate}, authority.roots(), identity};
}

}  // namespace strata::keys
