// Keys and certificates: what is refused is refused in one line; what is read is read the same
// again, and a certificate convinces nobody by itself.
//
// Input: a byte that says what follows: 'p' PEM, 'c' a certificate in DER, 'r' a request in DER,
// 'k' a private key in DER, 't' a token, 'u' a URI.
#include <openssl/err.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/keys/authority.h"
#include "common/keys/certificate.h"
#include "common/keys/identity.h"
#include "common/keys/join_token.h"
#include "common/keys/key_file.h"
#include "common/keys/verify.h"
#include "tests/fuzz/check.h"

namespace strata::keys {
namespace {

// Within the life of the certificates in the corpus.
const absl::Time kNow = absl::FromUnixSeconds(1800000000);

void CheckRefusal(const absl::Status& status, absl::StatusCode code) {
  FUZZ_CHECK(status.code() == code);
  FUZZ_CHECK(!status.message().empty());
  for (const char c : status.message()) FUZZ_CHECK(c >= ' ' && c <= '~');
}
void CheckRefusal(const absl::Status& status) {
  CheckRefusal(status, absl::StatusCode::kInvalidArgument);
}

void CheckIdentity(const absl::StatusOr<Identity>& identity) {
  if (!identity.ok()) return CheckRefusal(identity.status());
  FUZZ_CHECK(ParseUri(ToUri(*identity)).value() == *identity);
}

void Certificates(const std::string& pem) {
  const absl::StatusOr<std::vector<Certificate>> read = CertificatesFromPem(pem);
  if (!read.ok()) return CheckRefusal(read.status());
  FUZZ_CHECK(!read->empty() && read->size() <= kCertificatesMax);
  Trust own{"blue", {}};
  for (const Certificate& certificate : *read) {
    CheckIdentity(certificate.identity());
    FUZZ_CHECK(certificate.fingerprint().size() == 32);
    FUZZ_CHECK(!certificate.serial().empty());
    FUZZ_CHECK(Certificate::FromPem(certificate.ToPem())->fingerprint() ==
               certificate.fingerprint());
    (void)RenewAt(certificate);
    if (certificate.IsSelfSigned()) own.roots.push_back(certificate);
  }
  const absl::Status alone = Verify(*read, Trust{"blue", {}}, kNow).status();
  CheckRefusal(alone, absl::StatusCode::kUnauthenticated);
  const absl::StatusOr<Identity> verified = Verify(*read, own, kNow);
  if (!verified.ok()) return CheckRefusal(verified.status(), absl::StatusCode::kUnauthenticated);
  FUZZ_CHECK(verified->cluster == "blue");
  FUZZ_CHECK(read->size() > 1 && !read->front().IsAuthority());
}

void Request(const std::string& pem) {
  const absl::StatusOr<CertificateRequest> request = CertificateRequest::FromPem(pem);
  if (!request.ok()) CheckRefusal(request.status());
}

void AuthorityAndKeyFile(const std::string& pem) {
  if (const absl::StatusOr<Authority> authority = Authority::FromPem(pem); authority.ok()) {
    FUZZ_CHECK(Authority::FromPem(authority->ToPem())->cluster() == authority->cluster());
  } else {
    CheckRefusal(authority.status());
  }
  if (const absl::StatusOr<KeyFile> file = ParseKeyFile(pem, "fuzz"); file.ok()) {
    FUZZ_CHECK(ParseKeyFile(KeyFilePem(*file), "again")->identity == file->identity);
  } else {
    CheckRefusal(file.status());
    FUZZ_CHECK(file.status().message().find("fuzz: ") == 0);
  }
}

void Token(const std::string& text) {
  const absl::StatusOr<JoinToken> token = ParseJoinToken(text);
  if (!token.ok()) return CheckRefusal(token.status());
  FUZZ_CHECK(token->authority.size() == 32 && token->secret.size() == 16);
  FUZZ_CHECK(text.find(ToText(*token)) != std::string::npos);
}

void Uri(const std::string& uri) {
  if (const absl::StatusOr<Identity> identity = ParseUri(uri); identity.ok()) {
    FUZZ_CHECK(ToUri(*identity) == uri);
  } else {
    CheckRefusal(identity.status());
  }
  if (const absl::StatusOr<std::string> cluster = ParseClusterUri(uri); cluster.ok()) {
    FUZZ_CHECK(ToClusterUri(*cluster) == uri);
  } else {
    CheckRefusal(cluster.status());
  }
}

// DER, for which a fuzzer finds its way better than through base64.
std::string Pem(absl::string_view label, const std::string& der) {
  std::string pem = absl::StrCat("-----BEGIN ", label, "-----\n");
  const std::string text = absl::Base64Escape(der);
  for (size_t i = 0; i < text.size(); i += 64) absl::StrAppend(&pem, text.substr(i, 64), "\n");
  return absl::StrCat(pem, "-----END ", label, "-----\n");
}

void AnyPem(const std::string& pem) {
  Certificates(pem);
  Request(pem);
  AuthorityAndKeyFile(pem);
}

void Fuzz(char kind, const std::string& rest) {
  if (kind == 'p') AnyPem(rest);
  if (kind == 'c') AnyPem(Pem("CERTIFICATE", rest));
  if (kind == 'r') AnyPem(Pem("CERTIFICATE REQUEST", rest));
  if (kind == 'k') AnyPem(Pem("PRIVATE KEY", rest));
  if (kind == 't') Token(rest);
  if (kind == 'u') Uri(rest);
  // Nothing is left for others to take for their own error.
  FUZZ_CHECK(ERR_peek_error() == 0);
}

}  // namespace
}  // namespace strata::keys

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::keys::Fuzz(static_cast<char>(data[0]),
                     std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
