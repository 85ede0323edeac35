#include "server/coordinator/service/port_watch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr uint64_t kProcess = 7;

// A port of this host that stays ours also while nobody listens there: another process that got it
// would answer in our place.
class Port {
 public:
  Port() : held_(Bound(0)), listener_(Bound(number())) {}

  void Listen() { EXPECT_EQ(listen(listener_.get(), 4), 0); }
  void Close() { listener_ = UniqueFd(); }
  std::string address() const { return absl::StrCat("tcp://127.0.0.1:", number()); }

 private:
  static UniqueFd Bound(uint16_t port) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  uint16_t number() const {
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    getsockname(held_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  UniqueFd held_;  // never listens
  UniqueFd listener_;
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
