#include "server/coordinator/service/etcd/etcd_tls.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/file/file_error.h"
#include "common/keys/private_file.h"

namespace strata::server {
namespace {

constexpr size_t kKeyBytesMax = 64 << 10;
constexpr char kCertificate[] = "-----BEGIN CERTIFICATE-----";

absl::StatusOr<std::string> ReadCertificates(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError(errno == 0 ? EIO : errno, path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!absl::StrContains(text, kCertificate)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has no certificate: etcd wants one in PEM (", kCertificate, ")"));
  }
  return text;
}

}  // namespace

absl::StatusOr<EtcdTlsContent> ReadEtcdTls(const EtcdTls& tls) {
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.cert_file, tls.key_file,
                     ": etcd wants a certificate and its key: name both files or neither"));
  }
  if (tls.ca_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        tls.cert_file, ": name the file of the authority that signed etcd's certificates, too"));
  }
  EtcdTlsContent content;
  absl::StatusOr<std::string> ca = ReadCertificates(tls.ca_file);
  if (!ca.ok()) return ca.status();
  content.ca = *std::move(ca);
  if (tls.cert_file.empty()) return content;
  absl::StatusOr<std::string> cert = ReadCertificates(tls.cert_file);
  if (!cert.ok()) return cert.status();
  content.cert = *std::move(cert);
  absl::StatusOr<std::string> key = keys::ReadPrivateFile(tls.key_file, kKeyBytesMax);
  if (!key.ok()) return key.status();
  if (!absl::StrContains(*key, "PRIVATE KEY-----") || absl::StrContains(*key, "ENCRYPTED")) {
    return absl::InvalidArgumentError(
        absl::StrCat(tls.key_file, ": has no private key in PEM without a password"));
  }
  content.key = *std::move(key);
  return content;
}

}  // namespace strata::server
