// Peers that are programmed otherwise: OpenSSL's own clients and servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "common/seal/handshake.h"
#include "common/seal/testing/hex.h"

namespace strata::seal {
namespace {

using ::testing::HasSubstr;

constexpr char kIdentity[] = "job 7 attempt 1";

Secret JobSecret() {
  Secret secret;
  secret.fill(std::byte{42});
  return secret;
}

std::unique_ptr<Handshake> Listening() {
  return *Handshake::Accept(
      [](absl::string_view identity) {
        return identity == kIdentity ? std::optional<Secret>(JobSecret()) : std::nullopt;
      },
      Salt{});
}

std::unique_ptr<Handshake> Connecting() {
  return *Handshake::Connect(kIdentity, JobSecret(), Salt{});
}

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* tls) const { SSL_free(tls); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};

// A peer over memory BIOs; tests set it up by its context.
class Peer {
 public:
  explicit Peer(const SSL_METHOD* method) : context(SSL_CTX_new(method)) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  }

  // Shakes hands, and says salts of zeros or `salt` where that is set.
  std::string Take(absl::string_view said, bool is_connecting) {
    if (tls_ == nullptr) {
      tls_.reset(SSL_new(context.get()));
      SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
      is_connecting ? SSL_set_connect_state(tls_.get()) : SSL_set_accept_state(tls_.get());
    }
    if (!early_data.empty()) {
      size_t bytes = 0;
      EXPECT_EQ(SSL_write_early_data(tls_.get(), early_data.data(), early_data.size(), &bytes), 1);
      early_data.clear();
    }
    BIO_write(SSL_get_rbio(tls_.get()), said.data(), static_cast<int>(said.size()));
    if (!is_finished && SSL_do_handshake(tls_.get()) == 1) {
      is_finished = true;
      SSL_write(tls_.get(), salt.data(), static_cast<int>(salt.size()));
    }
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(SSL_get_wbio(tls_.get()), &data);
    const std::string reply(data, bytes);
    (void)BIO_reset(SSL_get_wbio(tls_.get()));
    ERR_clear_error();
    return reply;
  }

  std::unique_ptr<SSL_CTX, Free> context;
  std::string salt = std::string(kSaltBytes, '\0');
  std::string early_data;
  bool is_finished = false;

 private:
  std::unique_ptr<SSL, Free> tls_;
};

// What ours makes of it in the end.
absl::Status Outcome(Peer& peer, Handshake& ours, bool peer_connects) {
  absl::Status status;
  std::string said;
  if (!peer_connects) status = ours.Take({}, &said);
  for (int flights = 0; flights < 5 && status.ok(); ++flights) {
    const std::string answer = peer.Take(said, peer_connects);
    said.clear();
    if (answer.empty()) break;
    status = ours.Take(AsBytes(answer), &said);
  }
  EXPECT_EQ(ERR_peek_error(), 0u);
  if (!status.ok()) {
    EXPECT_FALSE(ours.is_done());
    if (!said.empty()) peer.Take(said, peer_connects);
  }
  return status;
}

SSL_SESSION* NewSession(SSL* tls, const Secret& secret, unsigned char suite) {
  SSL_SESSION* const session = SSL_SESSION_new();
  const unsigned char id[] = {0x13, suite};
  SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(secret.data()),
                              secret.size());
  SSL_SESSION_set_cipher(session, SSL_CIPHER_find(tls, id));
  SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

template <unsigned char kSuite>
int UsePsk(SSL* tls, const EVP_MD*, const unsigned char** id, size_t* bytes, SSL_SESSION** out) {
  *id = reinterpret_cast<const unsigned char*>(kIdentity);
  *bytes = sizeof kIdentity - 1;
  *out = NewSession(tls, JobSecret(), kSuite);
  return 1;
}

int FindPsk(SSL* tls, const unsigned char*, size_t, SSL_SESSION** out) {
  *out = NewSession(tls, JobSecret(), 0x02);
  return 1;
}

// A server that has a certificate, as strangers do.
void GiveCertificate(SSL_CTX* context) {
  const std::unique_ptr<EVP_PKEY, Free> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, Free> certificate(X509_new());
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  EXPECT_EQ(SSL_CTX_use_certificate(context, certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context, key.get()), 1);
}

TEST(ForeignPeer, WithTheSecretIsAccepted) {
  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePsk<0x02>);
  const auto listening = Listening();
  EXPECT_EQ(Outcome(client, *listening, true), absl::OkStatus());
  EXPECT_TRUE(listening->is_done());

  Peer server(TLS_server_method());
  SSL_CTX_set_psk_find_session_callback(server.context.get(), FindPsk);
  SSL_CTX_set_num_tickets(server.context.get(), 0);
  const auto connecting = Connecting();
  EXPECT_EQ(Outcome(server, *connecting, false), absl::OkStatus());
  EXPECT_TRUE(connecting->is_done());
}

TEST(ForeignPeer, OfAnOlderTlsIsRefused) {
  Peer client(TLS_client_method());
  SSL_CTX_set_max_proto_version(client.context.get(), TLS1_2_VERSION);
  EXPECT_EQ(Outcome(client, *Listening(), true).message(),
            "the peer does not shake hands as Strata does: unsupported protocol");
  Peer server(TLS_server_method());
  GiveCertificate(server.context.get());
  SSL_CTX_set_max_proto_version(server.context.get(), TLS1_2_VERSION);
  const absl::Status status = Outcome(server, *Connecting(), false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(ForeignPeer, AClientWithoutTheSecretIsRefused) {
  Peer client(TLS_client_method());
  const absl::Status status = Outcome(client, *Listening(), true);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_FALSE(client.is_finished);
}

TEST(ForeignPeer, AServerWithACertificateInsteadIsRefused) {
  Peer server(TLS_server_method());
  GiveCertificate(server.context.get());
  const absl::Status status = Outcome(server, *Connecting(), false);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate verify failed"));
  EXPECT_FALSE(server.is_finished);
}

TEST(ForeignPeer, OtherCiphersAndGroupsAreRefused) {
  Peer other_cipher(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(other_cipher.context.get(), UsePsk<0x01>);
  SSL_CTX_set_ciphersuites(other_cipher.context.get(), "TLS_AES_128_GCM_SHA256");
  EXPECT_FALSE(Outcome(other_cipher, *Listening(), true).ok());

  Peer other_group(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(other_group.context.get(), UsePsk<0x02>);
  SSL_CTX_set1_groups_list(other_group.context.get(), "P-256");
  EXPECT_FALSE(Outcome(other_group, *Listening(), true).ok());
}

// Without X25519 the secret alone would give the keys to whoever learns it later. OpenSSL's client
// chooses neither by itself, so its server is asked to.
TEST(ForeignPeer, OneWithoutForwardSecrecyIsRefused) {
  Peer server(TLS_server_method());
  SSL_CTX_set_psk_find_session_callback(server.context.get(), FindPsk);
  SSL_CTX_set_options(server.context.get(), SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set1_groups_list(server.context.get(), "P-256");
  EXPECT_FALSE(Outcome(server, *Connecting(), false).ok());

  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePsk<0x02>);
  SSL_CTX_set_options(client.context.get(), SSL_OP_ALLOW_NO_DHE_KEX);
  SSL_CTX_set1_groups_list(client.context.get(), "P-256");
  EXPECT_FALSE(Outcome(client, *Listening(), true).ok());
}

int UseLongIdentity(SSL* tls, const EVP_MD* digest, const unsigned char** id, size_t* bytes,
                    SSL_SESSION** out) {
  static const std::string identity(kIdentityBytesMax + 1, 'j');
  UsePsk<0x02>(tls, digest, id, bytes, out);
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *bytes = identity.size();
  return 1;
}

TEST(ForeignPeer, AnIdentityAboveTheBoundIsNobodys) {
  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UseLongIdentity);
  const auto listening = *Handshake::Accept(
      [](absl::string_view) {
        ADD_FAILURE() << "nobody asks for it";
        return JobSecret();
      },
      Salt{});
  EXPECT_EQ(Outcome(client, *listening, true).code(), absl::StatusCode::kPermissionDenied);
}

int UsePskForEarlyData(SSL* tls, const EVP_MD* digest, const unsigned char** id, size_t* bytes,
                       SSL_SESSION** out) {
  UsePsk<0x02>(tls, digest, id, bytes, out);
  SSL_SESSION_set_max_early_data(*out, 1000);
  return 1;
}

// Early data can be replayed.
TEST(ForeignPeer, EarlyDataIsRefused) {
  Peer client(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePskForEarlyData);
  client.early_data = std::string(kSaltBytes, 'e');
  const auto listening = Listening();
  const absl::Status status = Outcome(client, *listening, true);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too much early data"));
}

TEST(ForeignPeer, ASaltOfAnotherSizeIsRefused) {
  for (const size_t bytes : {1, 15, 17, 100}) {
    Peer client(TLS_client_method());
    client.salt = std::string(bytes, 's');
    SSL_CTX_set_psk_use_session_callback(client.context.get(), UsePsk<0x02>);
    const auto listening = Listening();
    const absl::Status status = Outcome(client, *listening, true);
    EXPECT_FALSE(listening->is_done());
    EXPECT_EQ(status.code(),
              bytes < kSaltBytes ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument)
        << status;
  }
}

}  // namespace
}  // namespace strata::seal
