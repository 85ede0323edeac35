#include "common/transport/zmq/partial_messages.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <string>

#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kStrangerBytesMax = 10, kBytesMax = 100;

class PartialMessagesTest : public testing::Test {
 protected:
  std::vector<int> Look() {
    return partial_.Look([this](int fd) { return bytes_[fd]; });
  }

  // As one that is known.
  void Open(int fd) {
    partial_.OnOpened(fd);
    partial_.OnMessage(fd);
    partial_.Admit(fd);
    Look();
  }

  PartialMessages partial_{{.stranger_bytes_max = kStrangerBytesMax, .bytes_max = kBytesMax}};
  std::map<int, uint64_t> bytes_;
};

TEST_F(PartialMessagesTest, AMessageThatGrowsBeyondTheLimitIsFoundInTwoLooks) {
  Open(7);
  bytes_[7] = kBytesMax;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
  bytes_[7] = kBytesMax + 1;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre(7));
  EXPECT_THAT(Look(), IsEmpty()) << "told once";
}

TEST_F(PartialMessagesTest, AStrangerMaySendLessUntilItIsAdmitted) {
  partial_.OnOpened(7);
  bytes_[7] = kStrangerBytesMax;
  Look();
  EXPECT_THAT(Look(), IsEmpty());
  partial_.OnMessage(7);
  Look();
  bytes_[7] += kStrangerBytesMax + 1;
  Look();
  EXPECT_THAT(Look(), ElementsAre(7));
  partial_.Admit(7);
  Look();
  bytes_[7] += kBytesMax;
  Look();
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(PartialMessagesTest, WholeMessagesBeginTheCountAgain) {
  Open(7);
  for (int i = 1; i <= 10; ++i) {
    bytes_[7] += kBytesMax + 1;
    partial_.OnMessage(7);
    EXPECT_THAT(Look(), IsEmpty()) << i;
  }
  bytes_[7] += kBytesMax + 1;
  EXPECT_THAT(Look(), IsEmpty());
  partial_.OnMessage(7);  // the bytes had been its
  EXPECT_THAT(Look(), IsEmpty());
  bytes_[7] += kBytesMax + 1;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre(7)) << "a first message excuses no second";
}

TEST_F(PartialMessagesTest, EachConnectionHasItsOwnCountAndANewOneBeginsAtZero) {
  for (const int fd : {7, 8, 9}) Open(fd);
  bytes_ = {{7, 2 * kBytesMax}, {8, kBytesMax}, {9, 3 * kBytesMax}};
  Look();
  partial_.OnClosed(9);
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
