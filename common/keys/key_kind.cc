#include "common/keys/key_kind.h"

#include <openssl/core_names.h>
#include <openssl/objects.h>

#include "common/keys/openssl_pointers.h"

namespace strata::keys {
namespace {

constexpr int kRsaBitsMin = 2048;
constexpr int kRsaBitsMax = 8192;

// NID_undef: the key is not of a curve with a name.
int CurveOf(const EVP_PKEY* key) {
  const ErrorQueueScope scope;
  int is_explicit = 0;
  char name[80] = "";
  if (EVP_PKEY_is_a(key, "EC") != 1 ||
      EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &is_explicit) !=
          1 ||
      is_explicit != 0 ||
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name, sizeof name, nullptr) !=
          1) {
    return NID_undef;
  }
  return OBJ_txt2nid(name);
}

}  // namespace

bool IsP256(const evp_pkey_st* key) { return CurveOf(key) == NID_X9_62_prime256v1; }

bool IsUsableKey(const evp_pkey_st* key) {
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    const int bits = EVP_PKEY_get_bits(key);
    return bits >= kRsaBitsMin && bits <= kRsaBitsMax;
  }
  const int curve = CurveOf(key);
  return curve == NID_X9_62_prime256v1 || curve == NID_secp384r1 || curve == NID_secp521r1;
}

}  // namespace strata::keys
