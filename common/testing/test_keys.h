#ifndef STRATA_COMMON_TESTING_TEST_KEYS_H_
#define STRATA_COMMON_TESTING_TEST_KEYS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/keys/authority.h"
#include "common/keys/certificate.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"
#include "common/keys/private_key.h"

namespace strata::keys {

// Keys and certificates for tests; a failure to make one aborts the test.

// An authority that is valid around the given time for 30 days.
Authority MakeAuthority(const std::string& cluster, absl::Time now);

// Makes the key file of a member admitted by the authority.
KeyFile MakeKeyFile(const Authority& authority, const Identity& identity, absl::Time not_before,
                    absl::Time not_after);

// The keys of a cluster, in files of a folder. They are valid for an hour.
class KeyFolder {
 public:
  explicit KeyFolder(std::string folder);

  // Returns the path of a file with a member's keys; the same ones each time.
  std::string PathOf(Role role, const std::string& name);
  const Authority& authority() const { return authority_; }

 private:
  const std::string folder_;
  const Authority authority_;
  std::set<std::string> made_;
};

// Certificates that Authority does not make: companies', forgers', and damaged ones. A failure to
// make one aborts the test.

// The content of a member's certificate, with any number of URIs.
CertificateContent MemberContent(const std::vector<std::string>& uris, absl::Time not_before,
                                 absl::Time not_after);
// The content of an authority's certificate, which may sign authorities below it.
CertificateContent AuthorityContent(const std::string& subject, absl::Time not_before,
                                    absl::Time not_after);
// Sets an extension to another value; "" removes it.
void SetExtension(CertificateContent& content, int number, const std::string& value);

// Null `issuer`: self-signed, with `issuer_key` as its own key.
Certificate MakeCertificate(const CertificateContent& content, const PrivateKey& key,
                            const Certificate* issuer, const PrivateKey& issuer_key);

// The same certificate with one bit of its signature changed.
Certificate WithWrongSignature(const Certificate& certificate);

}  // namespace strata::keys

#endif  // STRATA_COMMON_TESTING_TEST_KEYS_H_
