#include "common/os/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <sstream>

#include "google/protobuf/util/delimited_message_util.h"
#include "gtest/gtest.h"
#include "proto/processes.pb.h"

namespace strata {
namespace {

class ChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0);
    channel_ = std::make_unique<Channel>(fds_[0]);
  }
  void TearDown() override {
    if (fds_[1] >= 0) close(fds_[1]);
  }

  proto::ChildMessage Failed(const std::string& text) {
    proto::ChildMessage message;
    message.set_failed(text);
    return message;
  }

  int fds_[2];
  std::unique_ptr<Channel> channel_;
};

TEST_F(ChannelTest, SpeaksProtobufsDelimitedFormat) {
  std::ostringstream bytes;
  google::protobuf::util::SerializeDelimitedToOstream(Failed("one"), &bytes);
  google::protobuf::util::SerializeDelimitedToOstream(Failed(std::string(300, 'x')), &bytes);
  std::string text = bytes.str();
  ASSERT_EQ(send(fds_[1], text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  auto messages = channel_->Receive();
  ASSERT_TRUE(messages.ok());
  ASSERT_EQ(messages->size(), 2u);
  proto::ChildMessage first;
  ASSERT_TRUE(first.ParseFromString((*messages)[0]));
  EXPECT_EQ(first.failed(), "one");
}

TEST_F(ChannelTest, WaitsForTheRestOfAMessage) {
  std::ostringstream bytes;
  google::protobuf::util::SerializeDelimitedToOstream(Failed(std::string(300, 'x')), &bytes);
  std::string text = bytes.str();
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    ASSERT_EQ(send(fds_[1], &text[i], 1, 0), 1);
    auto messages = channel_->Receive();
    ASSERT_TRUE(messages.ok());
    ASSERT_TRUE(messages->empty());
  }
  ASSERT_EQ(send(fds_[1], &text.back(), 1, 0), 1);
  EXPECT_EQ(channel_->Receive()->size(), 1u);
}

TEST_F(ChannelTest, HandsOutWhatCameBeforeTheOtherSideClosed) {
  channel_ = nullptr;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0);
  channel_ = std::make_unique<Channel>(fds_[0]);
  Channel other(fds_[1]);
  fds_[1] = -1;
  other.Send(Failed("last words"));
  shutdown(other.fd(), SHUT_WR);
  EXPECT_EQ(channel_->Receive()->size(), 1u);
  EXPECT_EQ(channel_->Receive().status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ChannelTest, TellsACloseInsideAMessageFromOneBetweenThem) {
  const unsigned char bytes[] = {0x02, 0x1a, 0x00, 0x02, 0x1a};  // a message and a half
  ASSERT_EQ(send(fds_[1], bytes, sizeof(bytes), 0), 5);
  shutdown(fds_[1], SHUT_WR);
  EXPECT_EQ(channel_->Receive()->size(), 1u);
  EXPECT_EQ(channel_->Receive().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(channel_->Receive().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ChannelTest, KeepsWhatDoesNotFitUntilItIsFlushed) {
  Channel other(fds_[1]);
  fds_[1] = -1;
  for (int i = 0; i < 100; ++i) channel_->Send(Failed(std::string(100'000, 'x')));
  EXPECT_TRUE(channel_->wants_flush());
  size_t received = 0;
  for (int i = 0; i < 10'000 && received < 100; ++i) {
    channel_->Flush();
    received += other.Receive()->size();
  }
  EXPECT_EQ(received, 100u);
  EXPECT_FALSE(channel_->wants_flush());
}

TEST_F(ChannelTest, ClosesWhenTooMuchWaitsForTheOtherSide) {
  Channel bounded(dup(fds_[0]), 1'000'000);
  bounded.Send(Failed(std::string(900'000, 'x')));
  EXPECT_TRUE(bounded.wants_flush());
  for (int i = 0; i < 10; ++i) bounded.Send(Failed(std::string(100'000, 'x')));
  EXPECT_FALSE(bounded.wants_flush());
  EXPECT_EQ(bounded.Receive().status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ChannelTest, RefusesAMessageThatIsTooLong) {
  const unsigned char bytes[] = {0xff, 0xff, 0xff, 0xff, 0x0f};
  ASSERT_EQ(send(fds_[1], bytes, sizeof(bytes), 0), 5);
  EXPECT_EQ(channel_->Receive().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata
