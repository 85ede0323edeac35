// A coordinator's port and peers that ask for weaker encryption. A server that accepts everything
// agrees with the same peers, which proves that the coordinator refuses and the peer could.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/testing/short_folder.h"
#include "common/testing/test_keys.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/coordinator.h"

namespace strata::server {
namespace {

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Tls = std::unique_ptr<SSL, decltype(&SSL_free)>;

// As old and as weak as OpenSSL still permits.
Context MakeContext(const SSL_METHOD* method, const char* ciphers) {
  Context context(SSL_CTX_new(method), &SSL_CTX_free);
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  EXPECT_EQ(SSL_CTX_set_cipher_list(context.get(), ciphers), 1) << ciphers;
  return context;
}

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A TLS server that agrees to everything that OpenSSL can, with a certificate like a coordinator's.
class CarelessServer {
 public:
  explicit CarelessServer(const std::string& key_file)
      : context_(MakeContext(TLS_server_method(), "ALL:eNULL:@SECLEVEL=0")),
        listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), key_file.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context_.get(), key_file.c_str()), 1);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~CarelessServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  int port() const { return port_; }

 private:
  void Serve() {
    while (true) {
      const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer.valid()) return;
      const Tls tls(SSL_new(context_.get()), &SSL_free);
      SSL_set_fd(tls.get(), peer.get());
      SSL_accept(tls.get());
    }
  }

  const Context context_;
  const UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

// Returns whether a handshake of at most this version, with these TLS 1.2 ciphers, succeeds.
bool Agrees(int port, int version_max, const char* ciphers) {
  const Context context = MakeContext(TLS_client_method(), ciphers);
  SSL_CTX_set_max_proto_version(context.get(), version_max);
  const unsigned char http2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), http2, sizeof http2);
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const Tls tls(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(tls.get(), fd.get());
  return SSL_connect(tls.get()) == 1;
}

class TlsVersionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);  // a peer may be gone before it was answered
    const std::string state = folder_.path() + "/state";
    ASSERT_TRUE(InitKeys(state, "lab", absl::Now()).ok());
    Coordinator::Options options;
    options.listen = "127.0.0.1:0";
    options.state_dir = state;
    coordinator_ = *Coordinator::Create(options);
    ASSERT_TRUE(coordinator_->Start().ok());
    careless_ =
        std::make_unique<CarelessServer>(keys_.PathOf(keys::Role::kCoordinator, "careless"));
  }

  bool IsTaken(int version_max, const char* ciphers) {
    EXPECT_TRUE(Agrees(careless_->port(), version_max, ciphers)) << "the peer cannot do that";
    return Agrees(coordinator_->port(), version_max, ciphers);
  }

  const ShortFolder folder_;
  keys::KeyFolder keys_{folder_.path() + "/keys"};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CarelessServer> careless_;
};

TEST_F(TlsVersionsTest, NothingBelowTls12) {
  EXPECT_TRUE(IsTaken(TLS1_3_VERSION, "ALL"));
  EXPECT_TRUE(IsTaken(TLS1_2_VERSION, "ALL"));
  EXPECT_FALSE(IsTaken(TLS1_1_VERSION, "ALL"));
  EXPECT_FALSE(IsTaken(TLS1_VERSION, "ALL"));
}

TEST_F(TlsVersionsTest, OnlyCiphersThatSignWhatTheyEncrypt) {
  EXPECT_TRUE(IsTaken(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384"));
  EXPECT_FALSE(IsTaken(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA"));
  EXPECT_FALSE(IsTaken(TLS1_2_VERSION, "ECDHE-ECDSA-NULL-SHA"));
  EXPECT_FALSE(IsTaken(TLS1_2_VERSION, "AECDH-AES256-SHA"));
}

}  // namespace
}  // namespace strata::server
