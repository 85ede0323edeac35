#include "common/keys/certificate.h"

#include <openssl/pem.h>
#include <openssl/sha.h>

#include <ctime>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"
#include "common/require.h"

namespace strata::keys {
namespace {

absl::Status Damaged() {
  return absl::InvalidArgumentError("the certificate is damaged: it cannot be read");
}

std::optional<absl::Time> ToTime(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
  const absl::CivilSecond civil(parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                                parts.tm_hour, parts.tm_min, parts.tm_sec);
  return absl::FromCivil(civil, absl::UTCTimeZone());
}

absl::StatusOr<Certificate> FromDer(const std::string& der) {
  const ErrorQueueScope scope;
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* at = begin;
  const CertificatePointer certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  if (certificate == nullptr || at != begin + der.size()) return Damaged();
  return Certificate::FromX509(certificate.get());
}

bool IsCertificate(const PemBlock& block) {
  return block.label == PEM_STRING_X509 || block.label == PEM_STRING_X509_OLD;
}

}  // namespace

absl::StatusOr<Certificate> Certificate::FromX509(x509_st* certificate) {
  const ErrorQueueScope scope;
  const std::optional<absl::Time> not_before = ToTime(X509_get0_notBefore(certificate));
  const std::optional<absl::Time> not_after = ToTime(X509_get0_notAfter(certificate));
  if (!not_before.has_value() || !not_after.has_value()) return Damaged();
  if (X509_get0_pubkey(certificate) == nullptr) return Damaged();
  // Flags: OpenSSL reads the extensions at the first question about them.
  if ((X509_get_extension_flags(certificate) & EXFLAG_INVALID) != 0) return Damaged();
  X509_up_ref(certificate);
  return Certificate(CertificatePointer(certificate), *not_before, *not_after);
}

absl::StatusOr<Certificate> Certificate::FromPem(absl::string_view pem) {
  const absl::StatusOr<std::vector<PemBlock>> blocks = PemBlocks(pem);
  if (!blocks.ok()) return blocks.status();
  for (const PemBlock& block : *blocks) {
    if (IsCertificate(block)) return FromDer(block.der);
  }
  return absl::InvalidArgumentError("there is no certificate in PEM");
}

std::string Certificate::ToPem() const {
  const ErrorQueueScope scope;
  const BioPointer bio(BIO_new(BIO_s_mem()));
  STRATA_REQUIRE(bio != nullptr);
  STRATA_REQUIRE(PEM_write_bio_X509(bio.get(), get()) == 1);
  return BioText(bio.get());
}

absl::StatusOr<std::vector<std::string>> Certificate::uris() const {
  const ErrorQueueScope scope;
  int found = 0;
  const NamesPointer names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(get(), NID_subject_alt_name, &found, nullptr)));
  std::vector<std::string> uris;
  constexpr int kNone = -1;  // of X509_get_ext_d2i; -2: several such extensions
  if (names == nullptr && found == kNone) return uris;
  if (names == nullptr) {
    return absl::InvalidArgumentError("the alternative names of the certificate cannot be read");
  }
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      ASN1_STRING_length(uri));
  }
  return uris;
}

absl::StatusOr<Identity> Certificate::identity() const {
  const absl::StatusOr<std::vector<std::string>> found = uris();
  if (!found.ok()) return found.status();
  if (found->size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate carries ", found->size(), " URIs where one is its identity"));
  }
  return ParseUri(found->front());
}

std::string Certificate::fingerprint() const {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  unsigned bytes = 0;
  STRATA_REQUIRE(X509_digest(get(), EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()),
                             &bytes) == 1);
  STRATA_REQUIRE(bytes == digest.size());
  return digest;
}

std::string Certificate::serial() const {
  const NumberPointer number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(get()), nullptr));
  STRATA_REQUIRE(number != nullptr);
  char* digits = BN_bn2hex(number.get());
  STRATA_REQUIRE(digits != nullptr);
  std::string text = absl::AsciiStrToLower(digits);
  OPENSSL_free(digits);
  return text;
}

bool Certificate::IsSelfSigned() const {
  const ErrorQueueScope scope;
  constexpr int kAlsoCheckTheSignature = 1;
  return X509_self_signed(get(), kAlsoCheckTheSignature) == 1;
}

bool Certificate::IsAuthority() const {
  const ErrorQueueScope scope;
  // Others of its answers mean certificates that only look like an authority's.
  constexpr int kSaysSo = 1;
  return X509_check_ca(get()) == kSaysSo;
}

bool Certificate::BelongsTo(const PrivateKey& key) const {
  const ErrorQueueScope scope;
  return EVP_PKEY_eq(X509_get0_pubkey(get()), key.get()) == 1;
}

absl::StatusOr<std::vector<Certificate>> CertificatesFromPem(absl::string_view pem) {
  const absl::StatusOr<std::vector<PemBlock>> blocks = PemBlocks(pem);
  if (!blocks.ok()) return blocks.status();
  std::vector<Certificate> certificates;
  for (const PemBlock& block : *blocks) {
    if (!IsCertificate(block)) continue;
    if (certificates.size() == kCertificatesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are more than ", kCertificatesMax, " certificates"));
    }
    absl::StatusOr<Certificate> certificate = FromDer(block.der);
    if (!certificate.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("certificate ", certificates.size() + 1, " is damaged: it cannot be read"));
    }
    certificates.push_back(*std::move(certificate));
  }
  if (certificates.empty()) return absl::InvalidArgumentError("there is no certificate in PEM");
  return certificates;
}

std::string CertificatesToPem(const std::vector<Certificate>& certificates) {
  std::string pem;
  for (const Certificate& certificate : certificates) pem += certificate.ToPem();
  return pem;
}

std::string FingerprintText(absl::string_view fingerprint) {
  return absl::BytesToHexString(fingerprint);
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace strata::keys
