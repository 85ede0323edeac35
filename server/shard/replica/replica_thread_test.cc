// Two copies of a shard on threads, with sockets between them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/job/exchange/job_keys.h"
#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"
#include "server/shard/shard_thread.h"
#include "server/shard/testing/shard_harness.h"
#include "server/shard/testing/socket_node.h"

namespace strata::server {
namespace {

using transport::SealedEndpoint;
using wire::Frame;
using wire::Op;

constexpr uint32_t kElements = 4;

std::unique_ptr<transport::Endpoint> NewEndpoint() {
  return std::make_unique<SealedEndpoint>(
      transport::CreateZmqEndpoint(transport::ZmqOptions()).value(),
      SealedEndpoint::Unsealed::kOfOtherJobs);
}

class ReplicaThreadTest : public testing::TestWithParam<bool> {
 protected:
  ReplicaThreadTest() {
    for (auto& copy : copies_) {
      copy = std::make_unique<ShardThread>(ShardThread::Options(), kernels::Cpu(), NewEndpoint());
      EXPECT_TRUE(copy->Start().ok());
    }
    record_ = RecordOf(7);
  }

  // One node, one chunk.
  proto::JobRecord RecordOf(uint32_t job) const {
    JobOptions options;
    options.job = job;
    options.ranks = {1};
    options.elements = options.chunk_elements = kElements;
    options.batch_per_rank = 1;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 }";
    proto::JobRecord record = MakeRecord(options);
    record.mutable_placement()->set_shard_endpoints(0, Address(0));
    record.mutable_placement()->add_backup_endpoints(Address(1));
    if (GetParam()) {
      record.mutable_job()->set_protection(proto::Job::ENCRYPT);
      record.set_secret(std::string(32, static_cast<char>('a' + job)));
    }
    return record;
  }
  std::string Address(size_t copy) const {
    return absl::StrFormat("tcp://127.0.0.1:%d", copies_[copy]->port());
  }

  SocketNode NodeAt(size_t copy, const proto::JobRecord& record) const {
    auto endpoint = NewEndpoint();
    if (const auto keys = KeysOf(record, ""); keys.value().has_value()) {
      EXPECT_TRUE(endpoint->Protect(JobId(record.job_id()), **keys).ok());
    }
    return SocketNode(record, 0, copies_[copy]->port(), std::move(endpoint));
  }
  // Adds 1 to each weight, with push number `clock`.
  static void Push(const proto::JobRecord& record, SocketNode* node, uint64_t clock) {
    node->Send(PushFrame(record, 0, 0, clock, std::vector<float>(kElements, -1.0f), 1, clock));
  }
  static void ExpectAnswer(SocketNode* node, uint64_t clock) {
    const Frame answer = node->Receive();
    EXPECT_EQ(answer.header.op, Op::kAnswer);
    EXPECT_EQ(answer.header.clock, clock);
    EXPECT_EQ(ToFloats(answer), std::vector<float>(kElements, static_cast<float>(clock + 1)));
  }

  std::unique_ptr<ShardThread> copies_[2];
  proto::JobRecord record_;
};

TEST_P(ReplicaThreadTest, TheBackupGoesOnWhereThePrimaryEnded) {
  // With two jobs at each copy the line of each is of that job.
  const proto::JobRecord records[] = {record_, RecordOf(8)};
  for (const proto::JobRecord& record : records) {
    ASSERT_TRUE(copies_[0]->Install(record, ShardId(0)).ok());
    ASSERT_TRUE(copies_[1]->Install(record, ShardId(0), ShardCopy::kBackup).ok());
  }
  for (proto::JobRecord record : records) {
    SocketNode node = NodeAt(0, record);
    node.Send(InitFrame(record, 0, 0, std::vector<float>(kElements, 0.0f)));
    EXPECT_EQ(node.Receive().header.op, Op::kInitOk);
    for (uint64_t clock = 0; clock < 3; ++clock) {
      Push(record, &node, clock);
      ExpectAnswer(&node, clock);
    }
  }
  copies_[0]->Stop();
  for (proto::JobRecord record : records) {
    ASSERT_TRUE(copies_[1]->Promote(JobId(record.job_id()), ShardId(0), 3).ok());
    record.mutable_placement()->set_generation(3);
    SocketNode node = NodeAt(1, record);
    Push(record, &node, 2);  // as if its answer had been lost
    ExpectAnswer(&node, 2);
    Push(record, &node, 3);
    ExpectAnswer(&node, 3);
  }
}

TEST_P(ReplicaThreadTest, WithoutItsBackupAPrimaryConfirmsNothingUntilItIsToldToGoOnAlone) {
  ASSERT_TRUE(copies_[0]->Install(record_, ShardId(0)).ok());
  copies_[1]->Stop();
  SocketNode node = NodeAt(0, record_);
  node.Send(InitFrame(record_, 0, 0, std::vector<float>(kElements, 0.0f)));
  EXPECT_EQ(node.Receive(absl::Milliseconds(300)).header.op, Op::kHello) << "it is confirmed";
  const std::vector<BackupState> states = copies_[0]->BackupStates();
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].job, JobId(7));
  EXPECT_LT(states[0].waits_since, absl::InfiniteFuture());
  ASSERT_TRUE(copies_[0]->GoOnAlone(JobId(7), ShardId(0), 3).ok());
  EXPECT_EQ(node.Receive().header.op, Op::kInitOk);
  EXPECT_TRUE(copies_[0]->BackupStates().empty());
  Push(record_, &node, 0);  // in the generation of before, of which the node has not heard
  ExpectAnswer(&node, 0);
}

INSTANTIATE_TEST_SUITE_P(Frames, ReplicaThreadTest, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Sealed") : std::string("Plain");
});

}  // namespace
}  // namespace strata::server
