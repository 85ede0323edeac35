#ifndef STRATA_COMMON_KEYS_OPENSSL_POINTERS_H_
#define STRATA_COMMON_KEYS_OPENSSL_POINTERS_H_

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

// Owners of OpenSSL's objects, for the sources of this folder.

namespace strata::keys {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
template <typename T, auto kFree>
using OpenSslPointer = std::unique_ptr<T, FreeWith<kFree>>;

using BioPointer = OpenSslPointer<BIO, BIO_free_all>;
using NumberPointer = OpenSslPointer<BIGNUM, BN_free>;
using KeyPointer = OpenSslPointer<EVP_PKEY, EVP_PKEY_free>;
using KeyContextPointer = OpenSslPointer<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using Pkcs8Pointer = OpenSslPointer<PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free>;
using CertificatePointer = OpenSslPointer<X509, X509_free>;
using RequestPointer = OpenSslPointer<X509_REQ, X509_REQ_free>;
using ExtensionPointer = OpenSslPointer<X509_EXTENSION, X509_EXTENSION_free>;
using NamesPointer = OpenSslPointer<GENERAL_NAMES, GENERAL_NAMES_free>;
using StorePointer = OpenSslPointer<X509_STORE, X509_STORE_free>;
using StoreContextPointer = OpenSslPointer<X509_STORE_CTX, X509_STORE_CTX_free>;

inline void FreeStackOnly(STACK_OF(X509) * stack) { sk_X509_free(stack); }
// The certificates in it are owned elsewhere.
using BorrowedStackPointer = OpenSslPointer<STACK_OF(X509), FreeStackOnly>;

// Drops the errors that OpenSSL queues in this thread during its life, so that they do not show up
// in an unrelated error report, such as a TLS connection's.
class ErrorQueueScope {
 public:
  ErrorQueueScope() { ERR_set_mark(); }
  ~ErrorQueueScope() { ERR_pop_to_mark(); }
  ErrorQueueScope(const ErrorQueueScope&) = delete;
  ErrorQueueScope& operator=(const ErrorQueueScope&) = delete;
};

// Reads the text, which must outlive the BIO. Null: no memory.
inline BioPointer ReadOnlyBio(absl::string_view text) {
  return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Returns the bytes written to a memory BIO.
inline std::string BioText(BIO* bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  return bytes > 0 ? std::string(data, bytes) : std::string();
}

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_OPENSSL_POINTERS_H_
