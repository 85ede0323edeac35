#include "common/os/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/framed_channel.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "gtest/gtest.h"
#include "proto/control.pb.h"
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

constexpr absl::Duration kDeadline = absl::Seconds(60);

proto::SubmitReply Message(uint32_t id) {
  proto::SubmitReply message;
  message.set_job_id(id);
  return message;
}

class FramedChannelTest : public testing::Test {
 protected:
  FramedChannelTest() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    left_ = std::make_unique<FramedChannel>(UniqueFd(fds[0]));
    right_ = std::make_unique<FramedChannel>(UniqueFd(fds[1]));
  }

  void SendRaw(const std::string& bytes) {
    ASSERT_EQ(send(left_->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  std::unique_ptr<FramedChannel> left_, right_;
  proto::SubmitReply received_;
};

TEST_F(FramedChannelTest, MessagesArriveInOrderAlsoEmptyOnes) {
  for (const uint32_t id : {0u, 1u, 300u}) ASSERT_TRUE(left_->Send(Message(id)).ok());
  for (const uint32_t id : {0u, 1u, 300u}) {
    ASSERT_TRUE(right_->Receive(&received_, kDeadline).ok());
    EXPECT_EQ(received_.job_id(), id);
  }
  EXPECT_FALSE(*right_->TryReceive(&received_));
}

TEST_F(FramedChannelTest, AMessageThatComesInPiecesIsWaitedFor) {
  SendRaw("\x02");
  EXPECT_FALSE(*right_->TryReceive(&received_));
  SendRaw("\x08");
  EXPECT_FALSE(*right_->TryReceive(&received_));
  SendRaw("\x2a");
  EXPECT_TRUE(*right_->TryReceive(&received_));
  EXPECT_EQ(received_.job_id(), 42);
}

TEST_F(FramedChannelTest, ALargeMessageGoesThroughWhileTheOtherSideReads) {
  proto::JobStatus large;
  large.set_reason(std::string(8 << 20, 'x'));
  std::thread sender([&] { EXPECT_TRUE(left_->Send(large, kDeadline).ok()); });
  proto::JobStatus received;
  EXPECT_TRUE(right_->Receive(&received, kDeadline).ok());
  EXPECT_EQ(received.reason().size(), 8 << 20);
  sender.join();
}

TEST_F(FramedChannelTest, AMessageOverTheLimitIsRefusedAndTheChannelStaysUsable) {
  proto::JobStatus large;
  large.set_reason(std::string(FramedChannel::kMessageBytesMax, 'x'));
  EXPECT_EQ(left_->Send(large).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(left_->Send(Message(1)).ok());
  EXPECT_TRUE(right_->Receive(&received_, kDeadline).ok());
}

TEST_F(FramedChannelTest, TheEndComesAfterTheLastMessageAsItsOwnStatus) {
  ASSERT_TRUE(left_->Send(Message(9)).ok());
  left_.reset();
  ASSERT_TRUE(right_->Receive(&received_, kDeadline).ok());
  EXPECT_EQ(received_.job_id(), 9);
  EXPECT_EQ(right_->TryReceive(&received_).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(right_->Receive(&received_, kDeadline).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(FramedChannelTest, AnEndInsideAMessageIsDataLoss) {
  SendRaw("\x02\x08");
  left_.reset();
  EXPECT_EQ(right_->Receive(&received_, kDeadline).code(), absl::StatusCode::kDataLoss);
}

TEST_F(FramedChannelTest, ALengthOverTheLimitIsDataLoss) {
  SendRaw("\xff\xff\xff\xff\x0f");
  EXPECT_EQ(right_->TryReceive(&received_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FramedChannelTest, ALengthThatNeverEndsIsDataLoss) {
  SendRaw(std::string(6, '\x80'));
  EXPECT_EQ(right_->TryReceive(&received_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FramedChannelTest, BytesThatAreNoSuchMessageAreDataLoss) {
  SendRaw("\x02\xff\xff");
  EXPECT_EQ(right_->TryReceive(&received_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FramedChannelTest, ReceiveEndsAtItsDeadline) {
  EXPECT_EQ(right_->Receive(&received_, absl::Milliseconds(5)).code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(FramedChannelTest, SendToAReaderThatDoesNotReadEndsAtItsDeadlineAndBreaksTheChannel) {
  proto::JobStatus large;
  large.set_reason(std::string(8 << 20, 'x'));
  EXPECT_EQ(left_->Send(large, absl::Milliseconds(20)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(left_->Send(Message(1)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(FramedChannelTest, SendToAClosedSideIsUnavailableAndRaisesNoSignal) {
  right_.reset();
  EXPECT_EQ(left_->Send(Message(1)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(FramedChannelTest, ThreadsMaySendAtOnce) {
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t) {
    senders.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(left_->Send(Message(7), kDeadline).ok());
    });
  }
  for (int i = 0; i < 800; ++i) {
    ASSERT_TRUE(right_->Receive(&received_, kDeadline).ok());
    EXPECT_EQ(received_.job_id(), 7);
  }
  for (std::thread& sender : senders) sender.join();
}

}  // namespace
}  // namespace strata
