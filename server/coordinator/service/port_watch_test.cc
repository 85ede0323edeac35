#include "server/coordinator/service/port_watch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr uint64_t kProcess = 7;

// A port of this host that stays reserved while nobody listens: another process that got it would
// answer instead.
class Port {
 public:
  Port() : held_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(held_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(held_.get(), at, size), 0);
    EXPECT_EQ(getsockname(held_.get(), at, &size), 0);
    address_ = absl::StrCat("tcp://127.0.0.1:", ntohs(address.sin_port));
  }

  void Listen() {
    auto created = transport::CreateZmqEndpoint({});
    ASSERT_TRUE(created.ok()) << created.status();
    endpoint_ = *std::move(created);
    const auto port = endpoint_->Listen(address_);
    EXPECT_TRUE(port.ok()) << port.status();
  }
  void Close() { endpoint_.reset(); }
  const std::string& address() const { return address_; }

 private:
  const UniqueFd held_;  // never listens
  std::string address_;
  std::unique_ptr<transport::Endpoint> endpoint_;
};

// Two ports of one process.
class PortWatchTest : public testing::Test {
 protected:
  void ListenAtBoth() {
    for (Port& port : ports_) port.Listen();
  }

  Port ports_[2];
  const std::vector<std::string> addresses_ = {ports_[0].address(), ports_[1].address()};
};

TEST_F(PortWatchTest, SaysThatNobodyListensWhereSomebodyDid) {
  ListenAtBoth();
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  for (Port& port : ports_) port.Close();
  absl::Notification closed;
  watch.Look(kProcess, addresses_, [&] { closed.Notify(); });
  closed.WaitForNotification();
}

TEST_F(PortWatchTest, SaysNothingWhereOneOfThemIsOpen) {
  ListenAtBoth();
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  ports_[0].Close();
  watch.Look(kProcess, addresses_, [] { ADD_FAILURE(); });
  watch.WaitForAll();
}

TEST_F(PortWatchTest, SaysNothingOfPortsThatWereNeverReached) {
  PortWatch watch;
  watch.Learn(kProcess, addresses_);
  watch.WaitForAll();
  watch.Look(kProcess, addresses_, [] { ADD_FAILURE(); });
  watch.WaitForAll();
}

TEST(PortWatch, EndsAtOnceWhenItIsStopped) {
  PortWatch watch;
  // Nobody answers from there (RFC 5737).
  watch.Learn(kProcess, {"tcp://192.0.2.1:7"});
  watch.Stop();
  watch.Stop();
}

}  // namespace
}  // namespace strata::server
