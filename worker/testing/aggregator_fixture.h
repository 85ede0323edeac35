#ifndef STRATA_WORKER_TESTING_AGGREGATOR_FIXTURE_H_
#define STRATA_WORKER_TESTING_AGGREGATOR_FIXTURE_H_

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/event_fd.h"
#include "common/job/arena.h"
#include "common/os/framed_channel.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"
#include "proto/record.pb.h"
#include "worker/aggregator/aggregator.h"
#include "worker/client/client.h"
#include "worker/testing/exchange_world.h"

// A node with real ranks and a FakeShard, for tests.

namespace strata::worker {

// FakeShard behind a real socket.
class ShardServer {
 public:
  ShardServer() : endpoint_(*transport::CreateZmqEndpoint({})) {
    port_ = *endpoint_->Listen("tcp://127.0.0.1:0");
    thread_ = std::thread([this] { Serve(); });
  }
  ~ShardServer() {
    stop_ = true;
    endpoint_->Wake();
    thread_.join();
  }
  std::string address() const { return absl::StrCat("tcp://127.0.0.1:", port_); }
  FakeShard shard{1};  // before a client connects, or after it has gone

 private:
  void Serve() {
    while (!stop_) {
      std::vector<transport::Event> events;
      endpoint_->Poll(absl::Seconds(1), &events);
      for (const transport::Event& event : events) {
        if (event.kind != transport::Event::Kind::kFrame) continue;
        for (FakeShard::Reply& reply : shard.OnFrame(event.connection, event.frame)) {
          endpoint_->Send(reply.connection, reply.frame).IgnoreError();
        }
      }
    }
  }

  std::unique_ptr<transport::Endpoint> endpoint_;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Sets the view, the first of its job: nodes 3, 0 and 1 with 6, 2 and 2 ranks, in this order.
inline void SetThreeNodes(proto::View* view) {
  view->set_number(1);
  uint32_t first = 0;
  for (const auto& [number, ranks] : {std::pair(3u, 6u), std::pair(0u, 2u), std::pair(1u, 2u)}) {
    proto::LogicalNode* const node = view->add_nodes();
    node->set_node(number);
    node->set_first_rank(first);
    node->set_ranks(ranks);
    first += ranks;
  }
}

using client::Client;

inline constexpr absl::Duration kDeadline = absl::Seconds(60);
inline constexpr uint32_t kElements = 1000;  // 4 chunks of 256
inline constexpr uint32_t kRanks = 2;
inline constexpr uint32_t kFirstRank = 6;  // of the node

// A node: the aggregator on a thread; the test plays its worker daemon.
class AggregatorFixture : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    agent_ = std::make_unique<FramedChannel>(UniqueFd(fds[0]));
    launch_.mutable_record()->set_job_id(5);
    launch_.mutable_record()->set_token(77);
    proto::Job* job = launch_.mutable_record()->mutable_job();
    job->set_ranks(kRanks);
    job->set_window(2);
    launch_.set_first_rank(kFirstRank);
    launch_.set_local_ranks(kRanks);
    launch_.set_node_name("w1");
    launch_.set_run_dir("/runs/five");
    launch_.set_aggregator_socket(
        absl::StrCat("strata-test-", getpid(), "-",
                     testing::UnitTest::GetInstance()->current_test_info()->name()));
    proto::Launch own = launch_;
    own.set_channel_fd(fds[1]);
    options_.stop_fd = stop_.fd();
    aggregator_ = std::thread([this, own] { result_ = RunAggregator(own, options_); });
  }

  void TearDown() override {
    stop_.Notify();
    if (aggregator_.joinable()) aggregator_.join();
  }

  absl::Status Result() {
    aggregator_.join();
    return result_;
  }

  std::unique_ptr<Client> Join(uint32_t local_rank) {
    proto::Launch launch = launch_;
    launch.set_rank(kFirstRank + local_rank);
    launch.set_local_rank(local_rank);
    const std::string path =
        absl::StrCat(testing::TempDir(), "/launch-", getpid(), "-", local_rank);
    std::ofstream(path) << launch.DebugString();
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(path);
    EXPECT_TRUE(client.ok()) << client.status();
    unlink(path.c_str());
    return *std::move(client);
  }

  // Registers as every rank does, unless the test changes it, with weights 0.5.
  static absl::Status Begin(Client* client, uint64_t last_count = 700, float weight = 0.5f,
                            bool can_resume = false) {
    client::Tensor first, last;
    first.name = "first";
    first.shape = {300};
    last.name = "last";
    last.shape = {last_count};
    if (!client->Register(first).ok() || !client->Register(last).ok()) {
      return absl::InternalError("register");
    }
    if (absl::Status status = client->Allocate(); !status.ok()) return status;
    for (int tensor : {0, 1}) {
      for (float& w : client->Weights(tensor)) w = weight;
    }
    return client->Start({.samples_per_epoch = 100, .total_steps = 10, .can_resume = can_resume});
  }

  // One step in which every gradient is `gradient`.
  static absl::Status Step(Client* client, float gradient) {
    if (absl::Status status = client->BeginStep(8); !status.ok()) return status;
    for (int tensor : {1, 0}) {
      if (absl::Status status = client->Wait(tensor); !status.ok()) return status;
    }
    for (int tensor : {0, 1}) {
      for (float& g : client->Gradients(tensor)) g = gradient;
      if (absl::Status status = client->Publish(tensor); !status.ok()) return status;
    }
    return client->FinishStep();
  }

  // The next message that is not an activity report.
  proto::ChildMessage AwaitWord() {
    proto::ChildMessage message;
    do {
      if (!agent_->Receive(&message, kDeadline).ok()) return {};
    } while (message.has_activity());
    return message;
  }
  // The first activity report that satisfies `is`.
  proto::NodeActivity AwaitActivity(const std::function<bool(const proto::NodeActivity&)>& is) {
    proto::ChildMessage message;
    const absl::Time deadline = absl::Now() + kDeadline;
    do {
      EXPECT_TRUE(agent_->Receive(&message, kDeadline).ok() && absl::Now() < deadline)
          << message.DebugString();
    } while (!testing::Test::HasFailure() && !is(message.activity()));
    return message.activity();
  }

  // The daemon's part of the start.
  proto::NodeReady AwaitReady() {
    const proto::ChildMessage message = AwaitWord();
    EXPECT_TRUE(message.has_ready()) << message.DebugString();
    return message.ready();
  }
  void SendRun(const std::string& shard) {
    proto::AgentMessage message;
    proto::JobRecord* record = message.mutable_run()->mutable_record();
    *record = launch_.record();
    record->mutable_layout()->set_elements(kElements);
    record->set_samples_per_epoch(100);
    record->mutable_placement()->set_chunk_elements(256);
    record->mutable_placement()->add_shard_endpoints(shard);
    for (uint32_t c = 0; c < 4; ++c) record->mutable_placement()->add_shard_of_chunk(0);
    ASSERT_TRUE(agent_->Send(message).ok());
  }

  // Runs one body per rank on threads of their own.
  void OnRanks(const std::function<void(uint32_t, Client*)>& body) {
    for (uint32_t r = 0; r < kRanks; ++r) {
      ranks_.emplace_back([this, r, body] {
        std::unique_ptr<Client> client = Join(r);
        body(r, client.get());
      });
    }
  }
  void JoinRanks() {
    for (std::thread& rank : ranks_) rank.join();
    ranks_.clear();
  }
  std::string AwaitFailed() { return AwaitWord().failed(); }

  proto::Launch launch_;
  AggregatorOptions options_;  // set before SetUp
  std::unique_ptr<FramedChannel> agent_;
  EventFd stop_ = *EventFd::Create();
  absl::Status result_;
  std::thread aggregator_;
  std::vector<std::thread> ranks_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TESTING_AGGREGATOR_FIXTURE_H_
