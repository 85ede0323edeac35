#include "common/seal/handshake_error.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "absl/strings/str_cat.h"

namespace strata::seal {
namespace {

constexpr int kAlert = SSL_AD_REASON_OFFSET;  // the peer's alerts are reasons from here on

// The peer's proof is missing or wrong. Damaged bytes look the same.
bool IsWithoutProof(int reason) {
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
    // What a listener without certificates says of one who shows no PSK.
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
      return true;
    default:
      return false;
  }
}

// The peer says that we have shown no proof, or a wrong one.
bool IsRefusal(int reason) {
  switch (reason) {
    case kAlert + SSL_AD_BAD_RECORD_MAC:
    case kAlert + SSL_AD_HANDSHAKE_FAILURE:
    case kAlert + SSL_AD_ILLEGAL_PARAMETER:  // OpenSSL's for a wrong binder
    case kAlert + SSL_AD_ACCESS_DENIED:
    case kAlert + SSL_AD_DECRYPT_ERROR:
    case kAlert + SSL_AD_UNKNOWN_PSK_IDENTITY:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status HandshakeError() {
  const unsigned long error = ERR_peek_error();  // the first is the cause
  const char* const text = ERR_reason_error_string(error);
  const char* const reason = text == nullptr ? "no reason given" : text;
  const int code = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  if (IsWithoutProof(code)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer does not know the job's secret: ", reason));
  }
  if (IsRefusal(code)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer does not accept our secret: ", reason));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the peer does not shake hands as Strata does: ", reason));
}

}  // namespace strata::seal
