#ifndef STRATA_COMMON_KEYS_KEY_FILE_H_
#define STRATA_COMMON_KEYS_KEY_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/keys/certificate.h"
#include "common/keys/identity.h"
#include "common/keys/private_key.h"
#include "common/keys/verify.h"

namespace strata::keys {

// Everything that a daemon or a user needs to prove its identity and to check its peers: one file
// of PEM blocks, so that one rename replaces it all.
struct KeyFile {
  PrivateKey key;
  std::vector<Certificate> chain;  // the leaf, which belongs to `key`, then its intermediates
  std::vector<Certificate> roots;  // self-signed
  Identity identity;               // the leaf's

  // Returns the trust in peers of the own cluster.
  Trust trust() const { return Trust{identity.cluster, roots}; }
  std::string ChainPem() const { return CertificatesToPem(chain); }
  std::string RootsPem() const { return CertificatesToPem(roots); }
};

// Parses a private key and certificates. Self-signed ones are the roots; the others are the chain,
// in order. Verify checks whether they are valid now, and signed by a root. Errors, which begin
// with `origin`: InvalidArgument: one is missing or damaged, the key does not belong to the leaf,
// or the leaf carries no identity.
absl::StatusOr<KeyFile> ParseKeyFile(absl::string_view pem, absl::string_view origin);

// Errors: those of ReadPrivateFile and ParseKeyFile, which name the path.
absl::StatusOr<KeyFile> ReadKeyFile(const std::string& path);

// Errors: those of WritePrivateFile.
absl::Status WriteKeyFile(const std::string& path, const KeyFile& file);

// The file's content: a secret.
std::string KeyFilePem(const KeyFile& file);

// Returns when to request the next certificate: after two thirds of this one's validity.
absl::Time RenewAt(const Certificate& certificate);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_KEY_FILE_H_
