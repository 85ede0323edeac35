#include "common/keys/key_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/keys/pem.h"
#include "common/keys/private_file.h"

namespace strata::keys {
namespace {

absl::Status Wrong(absl::string_view origin, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what));
}

}  // namespace

absl::StatusOr<KeyFile> ParseKeyFile(absl::string_view pem, absl::string_view origin) {
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(pem);
  if (!key.ok()) return Wrong(origin, key.status().message());
  absl::StatusOr<std::vector<Certificate>> certificates = CertificatesFromPem(pem);
  if (!certificates.ok()) return Wrong(origin, certificates.status().message());
  std::vector<Certificate> chain, roots;
  for (Certificate& certificate : *certificates) {
    (certificate.IsSelfSigned() ? roots : chain).push_back(std::move(certificate));
  }
  if (chain.empty()) return Wrong(origin, "there is no certificate that an authority has signed");
  if (roots.empty()) return Wrong(origin, "there is no root certificate of the authority");
  const Certificate& leaf = chain.front();
  if (!leaf.BelongsTo(*key)) {
    return Wrong(origin, "the private key does not belong to the first certificate");
  }
  absl::StatusOr<Identity> identity = leaf.identity();
  if (!identity.ok()) return Wrong(origin, identity.status().message());
  return KeyFile{*std::move(key), std::move(chain), std::move(roots), *std::move(identity)};
}

absl::StatusOr<KeyFile> ReadKeyFile(const std::string& path) {
  const absl::StatusOr<std::string> pem = ReadPrivateFile(path, kPemBytesMax);
  if (!pem.ok()) return pem.status();
  return ParseKeyFile(*pem, path);
}

absl::Status WriteKeyFile(const std::string& path, const KeyFile& file) {
  return WritePrivateFile(path, KeyFilePem(file));
}

std::string KeyFilePem(const KeyFile& file) {
  return absl::StrCat(file.key.ToPem(), file.ChainPem(), file.RootsPem());
}

absl::Time RenewAt(const Certificate& certificate) {
  return certificate.not_before() + (certificate.not_after() - certificate.not_before()) * 2 / 3;
}

}  // namespace strata::keys
