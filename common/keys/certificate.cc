#include "common/keys/certificate.h"

#include <openssl/pem.h>
#include <openssl/sha.h>

#include <ctime>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"
#include "common/keys/private_key.h"
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
  // OpenSSL parses the extensions at the first query.
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
  // Its other answers mean certificates that only look like an authority's.
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

namespace {

RequestPointer Decode(const std::string& der) {
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* at = begin;
  RequestPointer request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
  if (at != begin + der.size()) request.reset();
  return request;
}

}  // namespace

absl::StatusOr<CertificateRequest> CertificateRequest::FromPem(absl::string_view pem) {
  const absl::StatusOr<std::vector<PemBlock>> blocks = PemBlocks(pem);
  if (!blocks.ok()) return blocks.status();
  if (blocks->size() != 1 || (blocks->front().label != PEM_STRING_X509_REQ &&
                              blocks->front().label != PEM_STRING_X509_REQ_OLD)) {
    return absl::InvalidArgumentError(
        "a request for a certificate is one PEM block CERTIFICATE REQUEST, and this is not");
  }
  const ErrorQueueScope scope;
  const RequestPointer request = Decode(blocks->front().der);
  KeyPointer key(request == nullptr ? nullptr : X509_REQ_get_pubkey(request.get()));
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "the request for a certificate is damaged: it cannot be read");
  }
  if (!IsP256(key.get())) {
    return absl::InvalidArgumentError(
        "the key in the request for a certificate is not ECDSA on P-256");
  }
  if (X509_REQ_verify(request.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(
        "the request for a certificate is not signed with the key that it holds");
  }
  return CertificateRequest(std::move(key));
}

absl::StatusOr<std::string> MakeRequestPem(const PrivateKey& key) {
  const ErrorQueueScope scope;
  const RequestPointer request(X509_REQ_new());
  const BioPointer bio(BIO_new(BIO_s_mem()));
  constexpr long kVersion1 = 0;
  if (request == nullptr || bio == nullptr || X509_REQ_set_version(request.get(), kVersion1) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) {
    return absl::InternalError("cannot make a request for a certificate: the key cannot sign");
  }
  return BioText(bio.get());
}

namespace {

bool SetSerial(X509* certificate) {
  constexpr int kBits = 128;
  const NumberPointer number(BN_new());
  return number != nullptr &&
         BN_rand(number.get(), kBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetSubject(X509* certificate, const std::string& subject) {
  return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                    MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(subject.data()),
                                    static_cast<int>(subject.size()), -1, 0) == 1;
}

bool SetTimes(X509* certificate, absl::Time not_before, absl::Time not_after) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(not_before)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(not_after)) != nullptr;
}

bool AddExtension(X509* certificate, X509V3_CTX* context, int number, const std::string& value) {
  const ExtensionPointer extension(X509V3_EXT_conf_nid(nullptr, context, number, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool AddExtensions(X509* certificate, X509* issuer, const CertificateContent& content) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  // The issuer's identifier distinguishes roots of one name, like those of a rotated authority. In
  // a root it is its own, which must be added first.
  if (!AddExtension(certificate, &context, NID_subject_key_identifier, "hash") ||
      !AddExtension(certificate, &context, NID_authority_key_identifier, "keyid")) {
    return false;
  }
  for (const auto& [number, value] : content.extensions) {
    if (!AddExtension(certificate, &context, number, value)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Certificate> SignCertificate(const CertificateContent& content,
                                            evp_pkey_st* public_key, const Certificate* issuer,
                                            const PrivateKey& issuer_key) {
  const ErrorQueueScope scope;
  const CertificatePointer certificate(X509_new());
  X509* const made = certificate.get();
  X509* const signer = issuer == nullptr ? made : issuer->get();
  if (made == nullptr || X509_set_version(made, X509_VERSION_3) != 1 || !SetSerial(made) ||
      !SetSubject(made, content.subject) ||
      X509_set_issuer_name(made, X509_get_subject_name(signer)) != 1 ||
      !SetTimes(made, content.not_before, content.not_after) ||
      X509_set_pubkey(made, public_key) != 1 || !AddExtensions(made, signer, content) ||
      X509_sign(made, issuer_key.get(), EVP_sha256()) == 0) {
    return absl::InternalError(
        absl::StrCat("cannot make a certificate for \"", content.subject, "\""));
  }
  return Certificate::FromX509(made);
}

}  // namespace strata::keys
