#ifndef STRATA_COMMON_KEYS_KEY_KIND_H_
#define STRATA_COMMON_KEYS_KEY_KIND_H_

struct evp_pkey_st;  // EVP_PKEY of OpenSSL

namespace strata::keys {

// True: ECDSA on P-256, by the curve's name. A curve spelled out in numbers is refused, since those
// may be anything.
bool IsP256(const evp_pkey_st* key);

// True: ECDSA on P-256, P-384 or P-521, or RSA of 2048 to 8192 bits: what certificate authorities
// of companies give out, and no key so large that a handshake takes seconds.
bool IsUsableKey(const evp_pkey_st* key);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_KEY_KIND_H_
