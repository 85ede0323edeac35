#include "common/testing/test_keys.h"

#include <openssl/obj_mac.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/keys/authority.h"
#include "common/keys/openssl_pointers.h"
#include "common/require.h"

namespace strata::keys {

Authority MakeAuthority(const std::string& cluster, absl::Time now) {
  return Authority::Make(cluster, now, absl::Hours(24 * 30)).value();
}

KeyFile MakeKeyFile(const Authority& authority, const Identity& identity, absl::Time not_before,
                    absl::Time not_after) {
  return IssueKeyFile(authority, identity, not_before, not_after).value();
}

KeyFolder::KeyFolder(std::string folder)
    : folder_(std::move(folder)), authority_(MakeAuthority("test", absl::Now())) {}

std::string KeyFolder::PathOf(Role role, const std::string& name) {
  const std::string path = absl::StrCat(folder_, "/", RoleName(role), "-", name, ".pem");
  if (!made_.insert(path).second) return path;
  const absl::Time now = absl::Now();
  const absl::Status written = WriteKeyFile(
      path,
      MakeKeyFile(authority_, {"test", role, name}, now - absl::Minutes(5), now + absl::Hours(1)));
  STRATA_REQUIRE(written.ok());
  return path;
}

CertificateContent MemberContent(const std::vector<std::string>& uris, absl::Time not_before,
                                 absl::Time not_after) {
  CertificateContent content{"odd", not_before, not_after, {}};
  content.extensions = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth,clientAuth"},
  };
  if (!uris.empty()) {
    SetExtension(content, NID_subject_alt_name, "URI:" + absl::StrJoin(uris, ",URI:"));
  }
  return content;
}

CertificateContent AuthorityContent(const std::string& subject, absl::Time not_before,
                                    absl::Time not_after) {
  return CertificateContent{subject,
                            not_before,
                            not_after,
                            {{NID_basic_constraints, "critical,CA:TRUE"},
                             {NID_key_usage, "critical,keyCertSign,cRLSign"}}};
}

void SetExtension(CertificateContent& content, int number, const std::string& value) {
  std::erase_if(content.extensions, [&](const auto& each) { return each.first == number; });
  if (!value.empty()) content.extensions.emplace_back(number, value);
}

Certificate MakeCertificate(const CertificateContent& content, const PrivateKey& key,
                            const Certificate* issuer, const PrivateKey& issuer_key) {
  return SignCertificate(content, key.get(), issuer, issuer_key).value();
}

Certificate WithWrongSignature(const Certificate& certificate) {
  unsigned char* der = nullptr;
  const int bytes = i2d_X509(certificate.get(), &der);
  STRATA_REQUIRE(bytes > 0);
  der[bytes - 1] ^= 1;  // The signature is at the end of a certificate.
  const unsigned char* at = der;
  const CertificatePointer changed(d2i_X509(nullptr, &at, bytes));
  OPENSSL_free(der);
  return Certificate::FromX509(changed.get()).value();
}

}  // namespace strata::keys
