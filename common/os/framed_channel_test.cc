#include "common/os/framed_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/control.pb.h"

namespace strata {
namespace {

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
