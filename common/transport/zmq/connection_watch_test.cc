#include "common/transport/zmq/connection_watch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <optional>
#include <string>

#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kStrangerBytesMax = 10, kBytesMax = 100;
constexpr absl::Duration kTimeout = absl::Seconds(10);
const absl::Time kNow = absl::FromUnixSeconds(1000);

class ConnectionWatchTest : public testing::Test {
 protected:
  std::vector<int> Look() {
    const ConnectionWatch::Found found = LookAt(kNow);
    EXPECT_THAT(found.late, IsEmpty());
    return found.endless;
  }
  ConnectionWatch::Found LookAt(absl::Time now) {
    return watch_.Look(now, [this](int fd) { return bytes_[fd]; });
  }

  // As one that is known.
  void Open(int fd) {
    watch_.OnOpened(fd, kNow);
    watch_.OnMessage(fd);
    watch_.Admit(fd);
    Look();
  }

  ConnectionWatch watch_{{.stranger_bytes_max = kStrangerBytesMax,
                          .bytes_max = kBytesMax,
                          .stranger_timeout = kTimeout}};
  std::map<int, uint64_t> bytes_;
};

TEST_F(ConnectionWatchTest, AMessageThatGrowsBeyondTheLimitIsFoundInTwoLooks) {
  Open(7);
  bytes_[7] = kBytesMax;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
  bytes_[7] = kBytesMax + 1;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre(7));
  EXPECT_THAT(Look(), IsEmpty()) << "told once";
}

TEST_F(ConnectionWatchTest, AStrangerMaySendLessUntilItIsAdmitted) {
  watch_.OnOpened(7, kNow);
  watch_.OnOpened(8, kNow);
  bytes_[7] = bytes_[8] = kStrangerBytesMax;
  Look();
  EXPECT_THAT(Look(), IsEmpty());
  watch_.OnMessage(7);
  Look();
  watch_.Admit(7);
  bytes_[7] += kBytesMax;
  bytes_[8] += 1;
  Look();
  EXPECT_THAT(Look(), ElementsAre(8));
}

TEST_F(ConnectionWatchTest, OnlyStrangersAreLate) {
  for (const int fd : {7, 8}) watch_.OnOpened(fd, kNow);
  watch_.OnOpened(9, kNow + absl::Seconds(1));
  watch_.Admit(8);
  EXPECT_THAT(LookAt(kNow + kTimeout - absl::Milliseconds(1)).late, IsEmpty());
  EXPECT_THAT(LookAt(kNow + kTimeout).late, ElementsAre(7));
  EXPECT_THAT(LookAt(kNow + kTimeout + absl::Seconds(1)).late, ElementsAre(9)) << "7 was told once";
  EXPECT_THAT(LookAt(kNow + 100 * kTimeout).late, IsEmpty());
}

TEST_F(ConnectionWatchTest, TheOldestStrangerIsNobodyWhoWasAdmittedOrFound) {
  EXPECT_EQ(watch_.OldestStranger(), std::nullopt);
  watch_.OnOpened(9, kNow);
  for (const int fd : {7, 8}) watch_.OnOpened(fd, kNow + absl::Seconds(1));
  EXPECT_EQ(watch_.OldestStranger(), 9);
  watch_.Admit(9);
  EXPECT_EQ(watch_.OldestStranger(), 7);
  watch_.OnClosed(7);
  EXPECT_EQ(watch_.OldestStranger(), 8);
  LookAt(kNow + 2 * kTimeout);
  EXPECT_EQ(watch_.OldestStranger(), std::nullopt);
}

TEST_F(ConnectionWatchTest, WholeMessagesBeginTheCountAgain) {
  Open(7);
  for (int i = 1; i <= 10; ++i) {
    bytes_[7] += kBytesMax + 1;
    watch_.OnMessage(7);
    EXPECT_THAT(Look(), IsEmpty()) << i;
  }
  bytes_[7] += kBytesMax + 1;
  EXPECT_THAT(Look(), IsEmpty());
  watch_.OnMessage(7);  // the bytes had been its
  EXPECT_THAT(Look(), IsEmpty());
  bytes_[7] += kBytesMax + 1;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre(7)) << "a first message excuses no second";
}

TEST_F(ConnectionWatchTest, EachConnectionHasItsOwnCountAndANewOneBeginsAtZero) {
  for (const int fd : {7, 8, 9}) Open(fd);
  bytes_ = {{7, 2 * kBytesMax}, {8, kBytesMax}, {9, 3 * kBytesMax}};
  Look();
  watch_.OnClosed(9);
  EXPECT_THAT(Look(), ElementsAre(7));
  bytes_[9] = 0;
  Open(9);  // another connection with the same number
  EXPECT_THAT(Look(), IsEmpty());
  bytes_[9] = 2 * kBytesMax;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre(9));
}

TEST(BytesTaken, CountsWhatWasReadFromATcpConnection) {
  const UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listening.get(), any, size), 0);
  ASSERT_EQ(listen(listening.get(), 1), 0);
  ASSERT_EQ(getsockname(listening.get(), any, &size), 0);
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), any, size), 0);
  const UniqueFd server(accept(listening.get(), nullptr, nullptr));
  EXPECT_EQ(BytesTaken(server.get()), 0u);
  const std::string sent(1000, 'x');
  ASSERT_EQ(send(client.get(), sent.data(), sent.size(), 0), 1000);
  std::string received(400, '\0');
  ASSERT_EQ(recv(server.get(), received.data(), received.size(), MSG_WAITALL), 400);
  EXPECT_EQ(BytesTaken(server.get()), 400u);
  EXPECT_EQ(BytesTaken(-1), 0u);
}

}  // namespace
}  // namespace strata::transport
