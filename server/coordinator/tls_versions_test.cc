// What a coordinator's port agrees to with a peer that would rather have something weaker.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/ipc/testing/short_folder.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/coordinator.h"

namespace strata::server {
namespace {

class TlsVersionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string state = std::string(folder_.path()) + "/state";
    ASSERT_TRUE(InitKeys(state, "lab", absl::Now()).ok());
    Coordinator::Options options;
    options.listen = "127.0.0.1:0";
    options.state_dir = state;
    coordinator_ = *Coordinator::Create(options);
    ASSERT_TRUE(coordinator_->Start().ok());
  }

  // Whether a handshake of at most this version, and with these ciphers of TLS 1.2, comes about.
  bool Agrees(int version_max, const char* ciphers) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context.get(), version_max);
    EXPECT_EQ(SSL_CTX_set_cipher_list(context.get(), ciphers), 1) << ciphers;
    const unsigned char http2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context.get(), http2, sizeof http2);
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(coordinator_->port()));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), &SSL_free);
    SSL_set_fd(tls.get(), fd.get());
    return SSL_connect(tls.get()) == 1;
  }

  const ShortFolder folder_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(TlsVersionsTest, NothingBelowTls12) {
  EXPECT_TRUE(Agrees(TLS1_3_VERSION, "ALL"));
  EXPECT_TRUE(Agrees(TLS1_2_VERSION, "ALL"));
  EXPECT_FALSE(Agrees(TLS1_1_VERSION, "ALL"));
  EXPECT_FALSE(Agrees(TLS1_VERSION, "ALL"));
}

TEST_F(TlsVersionsTest, OnlyCiphersThatSignWhatTheyEncrypt) {
  EXPECT_TRUE(Agrees(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384"));
  EXPECT_FALSE(Agrees(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA"));
  EXPECT_FALSE(Agrees(TLS1_2_VERSION, "ECDHE-ECDSA-NULL-SHA"));
  EXPECT_FALSE(Agrees(TLS1_2_VERSION, "AECDH-AES256-SHA"));
}

}  // namespace
}  // namespace strata::server
