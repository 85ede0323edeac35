#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/os/unix_socket.h"
#include "common/testing/other_user.h"
#include "common/transport/endpoint.h"
#include "common/transport/region_line.h"
#include "gtest/gtest.h"

namespace strata::transport {
namespace {

TEST(EndpointRefusals, EachHasItsOwnWords) {
  EndpointUse use;
  use.connections = 100;  // no refusals
  use.connections_max = 200;
  EXPECT_EQ(RefusalsOf(use), Refusals());
  use.refused = 1;
  use.silent = 2;
  use.late = 3;
  use.endless = 4;
  use.unsealed = 5;
  use.broken_seals = 6;
  use.wrong_secrets = 7;
  const Refusals expected = {{"over the limit of connections", 1},
                             {"connection without a message", 2},
                             {"no HELLO in time", 3},
                             {"message without end", 4},
                             {"frame without a seal", 5},
                             {"broken seal", 6},
                             {"wrong secret of a job", 7}};
  EXPECT_EQ(RefusalsOf(use), expected);
}

constexpr int kPatienceMs = 20'000;

bool IsReadable(const UniqueFd& fd) {
  pollfd look = {fd.get(), POLLIN, 0};
  return poll(&look, 1, kPatienceMs) == 1;
}

// Returns whether the peer has closed it without sending anything.
bool Ends(const UniqueFd& fd) { return IsReadable(fd) && HasEnded(fd); }

class RegionLine : public testing::Test {
 protected:
  void SetUp() override {
    if (!AsOtherUser([] { return true; })) GTEST_SKIP() << "takes root, outside of a namespace";
  }
  // Beyond TCP's range, so that it conflicts with nobody.
  const int port_ = 1'000'000 + getpid();
};

TEST_F(RegionLine, EndsTheConnectionOfAnotherUserAndServesTheNext) {
  const auto listener = ListenForRegions(port_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  bool turned_away = false;
  std::thread server(
      [&] { turned_away = IsReadable(*listener) && !AcceptForRegions(*listener).valid(); });
  AsOtherUser([&] {
    // Not by ConnectForRegions, which refuses this server as well.
    const auto address = MakeAbstractAddress(absl::StrCat("strata-regions-", port_));
    const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    return connect(fd.get(), address->get(), address->bytes) == 0 && Ends(fd);
  });
  server.join();
  EXPECT_TRUE(turned_away);
  const UniqueFd own = ConnectForRegions(port_);
  ASSERT_TRUE(own.valid());
  const UniqueFd served = AcceptForRegions(*listener);
  ASSERT_TRUE(served.valid());
  ASSERT_EQ(send(own.get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  EXPECT_EQ(recv(served.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(RegionLine, IsNotTakenWhereAnotherUserListens) {
  int listens[2];
  ASSERT_EQ(pipe2(listens, O_CLOEXEC), 0);
  const UniqueFd read_end(listens[0]);
  UniqueFd write_end(listens[1]);
  bool took_it = true;
  std::thread client([&] {
    char byte = 0;
    if (read(read_end.get(), &byte, 1) == 1) took_it = ConnectForRegions(port_).valid();
  });
  AsOtherUser([&] {
    const auto listener = ListenForRegions(port_);
    const bool told = listener.ok() && write(write_end.get(), "x", 1) == 1;
    if (!told || !IsReadable(*listener)) return false;
    return Ends(UniqueFd(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)));
  });
  write_end.Reset();  // where nobody listened
  client.join();
  EXPECT_FALSE(took_it);
}

}  // namespace
}  // namespace strata::transport
