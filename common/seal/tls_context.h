#ifndef STRATA_COMMON_SEAL_TLS_CONTEXT_H_
#define STRATA_COMMON_SEAL_TLS_CONTEXT_H_

#include <cstdint>

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

namespace strata::seal {

// The one suite: TLS_AES_256_GCM_SHA384.
inline constexpr uint16_t kCipherSuite = 0x1302;

// What all handshakes of a side have in common: TLS 1.3 alone, kCipherSuite alone, X25519 alone, no
// certificates, tickets, early data or renegotiation. Made once in a process and never freed. Null:
// OpenSSL is set up without one of them. Threads: any.
ssl_ctx_st* ConnectingContext();
ssl_ctx_st* ListeningContext();

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_TLS_CONTEXT_H_
