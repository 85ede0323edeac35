#include "worker/aggregator/aggregator.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
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
#include "common/ipc/framed_channel.h"
#include "common/job/arena.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"
#include "worker/client/client.h"
#include "worker/exchange/testing/fake_shard.h"

namespace strata::worker {
namespace {

using client::Client;

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr uint32_t kElements = 1000;  // 4 chunks of 256
constexpr uint32_t kRanks = 2;
constexpr uint32_t kFirstRank = 6;  // of the node

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

// A node: the aggregator on a thread, its worker daemon played by the test.
class AggregatorTest : public testing::Test {
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
    aggregator_ =
        std::thread([this, own] { result_ = RunAggregator(own, {.stop_fd = stop_.fd()}); });
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

  // Registers what every rank does, unless the test changes it, with weights 0.5.
  static absl::Status Begin(Client* client, uint64_t last_count = 700, float weight = 0.5f) {
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
    return client->Start({.samples_per_epoch = 100, .total_steps = 10});
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

  // The next message that is no activity.
  proto::ChildMessage AwaitWord() {
    proto::ChildMessage message;
    do {
      if (!agent_->Receive(&message, kDeadline).ok()) return {};
    } while (message.has_activity());
    return message;
  }
  // The first activity of which this is true.
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
  std::unique_ptr<FramedChannel> agent_;
  EventFd stop_ = *EventFd::Create();
  absl::Status result_;
  std::thread aggregator_;
  std::vector<std::thread> ranks_;
};

TEST_F(AggregatorTest, RanksTrainOnTheSumOfTheirGradientsInOneArena) {
  constexpr int kSteps = 20;
  ShardServer server;
  std::vector<std::vector<float>> finals(kRanks);
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    for (int step = 0; step < kSteps; ++step) {
      absl::Status status = Step(client, rank == 0 ? 1 : 10 * step);
      ASSERT_TRUE(status.ok()) << status;
    }
    absl::Status status = client->Finish();
    ASSERT_TRUE(status.ok()) << status;
    finals[rank].assign(client->ReadWeights()->begin(), client->ReadWeights()->end());
  });
  proto::NodeReady ready = AwaitReady();
  EXPECT_EQ(ready.job_id(), 5u);
  EXPECT_EQ(ready.layout().elements(), kElements);
  EXPECT_EQ(ready.samples_per_epoch(), 100u);
  EXPECT_EQ(ready.total_steps(), 10u);
  EXPECT_EQ(ready.run_dir(), "/runs/five");
  SendRun(server.address());
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
  // 0.5 + 20 * 1 + 10 * (0 + ... + 19)
  EXPECT_EQ(finals[0], std::vector<float>(kElements, 1920.5f));
  EXPECT_EQ(finals[1], finals[0]);
  EXPECT_TRUE(server.shard.faults().empty());
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(server.shard.taken(0, c), kSteps);
}

TEST_F(AggregatorTest, WeightsSeenInAStepAreThoseOfTheClockBefore) {
  ShardServer server;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    for (int step = 0; step < 50; ++step) {
      ASSERT_TRUE(client->BeginStep(8).ok());
      ASSERT_TRUE(client->WaitAll().ok());
      const absl::Span<const float> weights = *client->ReadWeights();
      for (float w : weights) ASSERT_EQ(w, 0.5f + 3 * step);
      for (int tensor : {0, 1}) {
        for (float& g : client->Gradients(tensor)) g = 1.0f + rank;
      }
      ASSERT_TRUE(client->Publish(1).ok());  // out of order
      ASSERT_TRUE(client->Publish(0).ok());
      ASSERT_TRUE(client->FinishStep().ok());
    }
    ASSERT_TRUE(client->Finish().ok());
  });
  AwaitReady();
  SendRun(server.address());
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(AggregatorTest, TheDaemonHearsWhichRankHoldsUpTheNode) {
  ShardServer server;
  absl::Notification start, go_on;
  OnRanks([&](uint32_t rank, Client* client) {
    if (rank == 1) start.WaitForNotification();
    ASSERT_TRUE(Begin(client).ok());
    ASSERT_TRUE(Step(client, 1).ok());
    ASSERT_TRUE(client->BeginStep(8).ok());
    ASSERT_TRUE(client->WaitAll().ok());
    ASSERT_TRUE(client->Publish(1).ok());
    if (rank == 1) go_on.WaitForNotification();
    ASSERT_TRUE(client->Publish(0).ok());
    ASSERT_TRUE(client->FinishStep().ok());
    ASSERT_TRUE(client->Finish().ok());
  });
  proto::NodeActivity activity =
      AwaitActivity([](const auto& a) { return a.ranks_size() == 2 && a.ranks(0).waiting(); });
  EXPECT_EQ(activity.phase(), "starting");
  EXPECT_EQ(activity.ranks(1).rank(), kFirstRank + 1);
  EXPECT_FALSE(activity.ranks(1).waiting()) << "has not called Start";
  start.Notify();
  AwaitReady();
  SendRun(server.address());

  activity = AwaitActivity([](const auto& a) {
    return a.phase() == "training" && a.ranks(0).clock() == 2 && a.ranks(1).published() == 2;
  });
  EXPECT_TRUE(activity.ranks(0).waiting());
  EXPECT_EQ(activity.ranks(1).clock(), 1u);
  EXPECT_EQ(activity.ranks(1).chunks(), 4u);
  EXPECT_FALSE(activity.ranks(1).waiting());
  ASSERT_EQ(activity.shards_size(), 1);
  EXPECT_EQ(activity.shards(0).address(), server.address());
  EXPECT_TRUE(activity.shards(0).connected());
  const int64_t idle_ms = activity.ranks(1).idle_ms();
  activity = AwaitActivity([&](const auto& a) { return a.ranks(1).idle_ms() > idle_ms; });
  EXPECT_EQ(activity.ranks(1).published(), 2u);
  go_on.Notify();
  JoinRanks();
  EXPECT_TRUE(Result().ok()) << result_;
}

TEST_F(AggregatorTest, RanksWithOtherTensorsAreNamed) {
  OnRanks([&](uint32_t rank, Client* client) {
    absl::Status status = Begin(client, rank == 0 ? 700 : 701);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.ToString(), "registered other tensors")) << status;
  });
  const std::string reason = AwaitFailed();
  EXPECT_TRUE(absl::StrContains(reason, "rank 6") && absl::StrContains(reason, "rank 7")) << reason;
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, RanksWithOtherFirstWeightsAreNamed) {
  OnRanks([&](uint32_t rank, Client* client) {
    EXPECT_EQ(Begin(client, 700, 1.0f + rank).code(), absl::StatusCode::kUnavailable);
  });
  const std::string reason = AwaitFailed();
  EXPECT_TRUE(absl::StrContains(reason, "offers other first weights than rank")) << reason;
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, ARankThatDiesEndsTheJobByNameAndTheOthersDoNotHang) {
  ShardServer server;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    ASSERT_TRUE(Step(client, 1).ok());
    if (rank == 1) return;  // closes its socket, as a killed process does
    absl::Status status = absl::OkStatus();
    while (status.ok()) status = Step(client, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "rank 7 is gone before it had finished");
  });
  AwaitReady();
  SendRun(server.address());
  const proto::RankLost lost = AwaitWord().lost();
  EXPECT_EQ(lost.local_rank(), 1u);
  EXPECT_EQ(lost.text(), "rank 7 is gone before it had finished");
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AggregatorTest, ARankThatStopsEarlierThanAnotherIsNamed) {
  ShardServer server;
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    ASSERT_TRUE(Step(client, 1).ok());
    if (rank == 0) {
      ASSERT_TRUE(Step(client, 1).ok());
    }
    EXPECT_EQ(client->Finish().code(), absl::StatusCode::kUnavailable);
  });
  AwaitReady();
  SendRun(server.address());
  const std::string reason = AwaitFailed();
  EXPECT_TRUE(absl::StrContains(reason, "rank 7") && absl::StrContains(reason, "after 1"))
      << reason;
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, WhatAServerRefusesReachesDaemonAndRanks) {
  ShardServer server;
  server.shard.RefusePush(3, 2, wire::ErrorCode::kNotFinite, "NaN in the sum");
  OnRanks([&](uint32_t rank, Client* client) {
    ASSERT_TRUE(Begin(client).ok());
    absl::Status status = absl::OkStatus();
    while (status.ok()) status = Step(client, 1);
    EXPECT_TRUE(absl::StrContains(status.ToString(), "chunk 3 at clock 2: NaN")) << status;
  });
  AwaitReady();
  SendRun(server.address());
  EXPECT_TRUE(absl::StrContains(AwaitFailed(), server.address()));
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AggregatorTest, EndsWhenTheDaemonIsGoneAlsoWhileRanksAreStillStarting) {
  agent_.reset();
  EXPECT_EQ(Result().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AggregatorTest, AStopEndsItAndItsRanks) {
  OnRanks([&](uint32_t, Client* client) {
    absl::Status status = Begin(client);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "the aggregator was told to stop");
  });
  AwaitReady();
  stop_.Notify();
  JoinRanks();
  EXPECT_EQ(Result().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace strata::worker
