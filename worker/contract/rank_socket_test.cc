#include "worker/contract/rank_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/os/unix_socket.h"
#include "common/testing/other_user.h"

namespace strata::worker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

bool IsReadable(const UniqueFd& fd) {
  pollfd look = {fd.get(), POLLIN, 0};
  return poll(&look, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) == 1;
}

// Returns whether the peer has closed it without sending anything.
bool Ends(const UniqueFd& fd) {
  char byte = 0;
  return IsReadable(fd) && recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

class RankSocket : public testing::Test {
 protected:
  void SetUp() override {
    if (!AsOtherUser([] { return true; })) GTEST_SKIP() << "takes root, outside of a namespace";
  }
  const std::string name_ =
      absl::StrCat(testing::UnitTest::GetInstance()->current_test_info()->name(), "-", getpid());
};

TEST_F(RankSocket, EndsTheConnectionOfAnotherUserAndServesTheNext) {
  const auto listener = ListenAt(name_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  bool turned_away = false;
  std::thread server(
      [&] { turned_away = IsReadable(*listener) && !AcceptFrom(*listener).valid(); });
  AsOtherUser([&] {
    // Not by ConnectTo, which refuses this server as well.
    const auto address = MakeAbstractAddress(name_);
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(fd.get(), address->get(), address->bytes) == 0 && Ends(fd);
  });
  server.join();
  EXPECT_TRUE(turned_away);
  const auto own = ConnectTo(name_, kPatience);
  ASSERT_TRUE(own.ok()) << own.status();
  const UniqueFd served = AcceptFrom(*listener);
  ASSERT_TRUE(served.valid());
  ASSERT_EQ(send(own->get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  EXPECT_EQ(recv(served.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(RankSocket, IsNotSpokenToWhereAnotherUserListens) {
  std::optional<absl::StatusOr<UniqueFd>> connected;
  // It retries until somebody listens.
  std::thread client([&] { connected = ConnectTo(name_, kPatience); });
  AsOtherUser([&] {
    const auto listener = ListenAt(name_);
    if (!listener.ok() || !IsReadable(*listener)) return false;
    return Ends(UniqueFd(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)));
  });
  client.join();
  EXPECT_EQ(connected->status(),
            absl::PermissionDeniedError(
                absl::StrCat("a process of another user listens at socket \"", name_, "\"")));
}

}  // namespace
}  // namespace strata::worker
