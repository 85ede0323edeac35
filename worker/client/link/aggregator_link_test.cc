#include "worker/client/link/aggregator_link.h"

#include <poll.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace strata::client
