#include "common/seal/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

namespace strata::seal {
namespace {

struct FreeTlsContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

// No certificate is a proof here: a peer that shows one does not know the secret.
int RefuseCertificate(X509_STORE_CTX* store, void*) {
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

SSL_CTX* Make(const SSL_METHOD* method) {
  constexpr int kSecurityLevel = 2;  // 112 bits
  constexpr long kCertificateBytesMax = 4 << 10;
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, FreeTlsContext> context(SSL_CTX_new(method));
  const bool is_made = context != nullptr &&
                       SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                       SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                       SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_256_GCM_SHA384") == 1 &&
                       SSL_CTX_set1_groups_list(context.get(), "X25519") == 1 &&
                       SSL_CTX_set_num_tickets(context.get(), 0) == 1 &&
                       SSL_CTX_set_max_early_data(context.get(), 0) == 1 &&
                       SSL_CTX_set_recv_max_early_data(context.get(), 0) == 1;
  ERR_clear_error();
  if (!is_made) return nullptr;
  SSL_CTX_set_security_level(context.get(), kSecurityLevel);
  // The host's openssl.cnf may have allowed the first: a PSK without X25519 has no forward secrecy.
  // The second adds records that nobody checks, for the sake of middleboxes; none is between.
  SSL_CTX_clear_options(context.get(), SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(context.get(), kCertificateBytesMax);
  return context.release();
}

SSL_CTX* MakeConnecting() {
  SSL_CTX* const context = Make(TLS_client_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context, RefuseCertificate, nullptr);
  return context;
}

}  // namespace

SSL_CTX* ConnectingContext() {
  static SSL_CTX* const context = MakeConnecting();
  return context;
}

SSL_CTX* ListeningContext() {
  static SSL_CTX* const context = Make(TLS_server_method());
  return context;
}

}  // namespace strata::seal
