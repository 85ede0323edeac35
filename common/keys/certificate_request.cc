#include "common/keys/certificate_request.h"

#include <openssl/pem.h>

#include <vector>

#include "common/keys/key_kind.h"
#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"

namespace strata::keys {
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

}  // namespace strata::keys
