#include "worker/client/link/aggregator_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/contract/node_memory.h"
#include "worker/contract/rank_socket.h"

namespace strata::client {
namespace {

// The aggregator's side of one connection, played by the test.
class AggregatorLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    launch_.set_node(1);
    launch_.set_node_name("w1");
    launch_.set_local_ranks(1);
    launch_.set_aggregator_socket(
        absl::StrCat("strata-test-", getpid(), "-",
                     testing::UnitTest::GetInstance()->current_test_info()->name()));
    auto listener = worker::ListenAt(launch_.aggregator_socket());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  // Refuses the rank; `reason` empty: without a word why.
  std::thread Refuse(const std::string& reason) {
    return std::thread([this, reason] {
      pollfd wait{listener_.get(), POLLIN, 0};
      poll(&wait, 1, -1);
      socket_ = std::make_unique<FramedChannel>(worker::AcceptFrom(listener_));
      EXPECT_TRUE(worker::SendDescriptors(socket_->fd(), -1, -1).ok());
      if (reason.empty()) return;
      proto::AggregatorMessage message;
      message.set_stopped(reason);
      EXPECT_TRUE(socket_->Send(message).ok());
    });
  }

  proto::Launch launch_;
  UniqueFd listener_;
  std::unique_ptr<FramedChannel> socket_;
};

TEST_F(AggregatorLinkTest, SaysWhyTheAggregatorRefusesIt) {
  std::thread aggregator = Refuse("not a rank of this job");
  auto link = AggregatorLink::Connect(launch_, nullptr);
  ASSERT_TRUE(link.ok()) << link.status();
  absl::Status status = (*link)->Allocate(proto::Layout()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "not a rank of this job");
  aggregator.join();
}

TEST_F(AggregatorLinkTest, DoesNotWaitForEverForAnAggregatorThatOwesAnAnswer) {
  std::thread aggregator = Refuse("");
  auto link = AggregatorLink::Connect(launch_, nullptr, absl::Milliseconds(50));
  ASSERT_TRUE(link.ok()) << link.status();
  absl::Status status = (*link)->Allocate(proto::Layout()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the aggregator of node 1 (w1) has not answered within 50ms");
  aggregator.join();
}

TEST_F(AggregatorLinkTest, TheProgramEndsAWaitForTheAggregator) {
  std::thread aggregator = Refuse("");
  auto link = AggregatorLink::Connect(launch_, nullptr, absl::InfiniteDuration());
  ASSERT_TRUE(link.ok()) << link.status();
  int asked = 0;
  (*link)->AskInWaits(
      [&] { return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("interrupted"); });
  EXPECT_EQ((*link)->Allocate(proto::Layout()).status(), absl::CancelledError("interrupted"));
  aggregator.join();
}

// The aggregator's side of a rank that trains, as far as its memory goes.
TEST_F(AggregatorLinkTest, TheProgramEndsAWaitForWeightsAndMayWaitAgain) {
  proto::Layout layout;
  layout.set_elements(4);
  absl::StatusOr<std::unique_ptr<worker::NodeMemory>> memory = worker::NodeMemory::Create(4, 1);
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->header().chunks = 1;
  const UniqueFd doorbell(eventfd(0, EFD_CLOEXEC));
  std::thread aggregator([&] {
    pollfd wait{listener_.get(), POLLIN, 0};
    poll(&wait, 1, -1);
    socket_ = std::make_unique<FramedChannel>(worker::AcceptFrom(listener_));
    EXPECT_TRUE(worker::SendDescriptors(socket_->fd(), (*memory)->fd(), doorbell.get()).ok());
    proto::AggregatorMessage message;
    message.mutable_started()->set_chunk_elements(4);
    EXPECT_TRUE(socket_->Send(message).ok());
  });
  auto link = AggregatorLink::Connect(launch_, nullptr);
  ASSERT_TRUE(link.ok()) << link.status();
  bool interrupts = true;
  (*link)->AskInWaits(
      [&] { return interrupts ? absl::CancelledError("interrupted") : absl::OkStatus(); });
  interrupts = false;
  ASSERT_EQ((*link)->Allocate(layout).status(), absl::OkStatus());
  ASSERT_EQ((*link)->Start({}).status(), absl::OkStatus());
  aggregator.join();
  interrupts = true;
  EXPECT_EQ((*link)->AwaitWeights(ChunkId(0), 0), absl::CancelledError("interrupted"));
  (*memory)->landed(0).store(1);
  EXPECT_EQ((*link)->AwaitWeights(ChunkId(0), 0), absl::OkStatus());
}

}  // namespace
}  // namespace strata::client
