#include "common/keys/signed_certificate.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/keys/openssl_pointers.h"

namespace strata::keys {
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
  // The issuer's identifier tells roots of one name apart, as those of a rotated authority. In a
  // root it is its own, which must be there first.
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
