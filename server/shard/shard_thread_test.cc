#include "server/shard/shard_thread.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/buffer_pool.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using transport::Event;
using wire::Frame;
using wire::Op;

constexpr absl::Duration kDeadline = absl::Seconds(60);

std::unique_ptr<transport::Endpoint> NewEndpoint() {
  return transport::CreateZmqEndpoint(transport::ZmqOptions()).value();
}

std::unique_ptr<ShardThread> StartedShard(ShardThread::Options options = {}) {
  auto shard = std::make_unique<ShardThread>(options, kernels::Cpu(), NewEndpoint());
  EXPECT_TRUE(shard->Start().ok());
  return shard;
}

class ThreadNode : public SocketNode {
 public:
  ThreadNode(const proto::JobRecord& record, uint32_t number, int port)
      : SocketNode(record, number, port, NewEndpoint()) {}
};

JobOptions SomeChunks() {
  JobOptions options;
  options.elements = 5000;
  options.chunk_elements = 1024;
  options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { sync {} }";
  return options;
}

TEST(ShardThread, TrainsTwoNodesOverSockets) {
  const proto::JobRecord record = MakeRecord(SomeChunks());
  const ChunkMap map(5000, 1024);
  auto shard = StartedShard();
  ASSERT_TRUE(shard->Install(record, ShardId(0)).ok());
  ThreadNode nodes[] = {ThreadNode(record, 0, shard->port()), ThreadNode(record, 1, shard->port())};
  for (uint32_t chunk = 0; chunk < map.chunks(); ++chunk) {
    const std::vector<float> first(map.ElementsOf(ChunkId(chunk)), chunk);
    for (uint32_t node : {0, 1}) {
      nodes[node].Send(InitFrame(record, node, chunk, first));
      EXPECT_EQ(nodes[node].Receive().header.op, Op::kInitOk);
    }
  }
  for (uint64_t clock = 0; clock < 4; ++clock) {
    for (uint32_t node : {0, 1}) {
      for (uint32_t chunk = 0; chunk < map.chunks(); ++chunk) {
        const std::vector<float> sum(map.ElementsOf(ChunkId(chunk)), node == 0 ? -2.0f : -6.0f);
        nodes[node].Send(PushFrame(record, node, chunk, clock, sum, 4, clock));
      }
    }
    for (ThreadNode& node : nodes) {
      std::map<uint32_t, Frame> answers;
      for (uint32_t i = 0; i < map.chunks(); ++i) {
        Frame frame = node.Receive();
        ASSERT_EQ(frame.header.op, Op::kAnswer);
        ASSERT_EQ(frame.header.clock, clock);
        answers[frame.header.chunk] = frame;
      }
      for (uint32_t chunk = 0; chunk < map.chunks(); ++chunk) {
        const std::vector<float> expected(map.ElementsOf(ChunkId(chunk)), chunk + clock + 1.0f);
        ASSERT_EQ(ToFloats(answers[chunk]), expected);
      }
    }
  }
  const auto counters = shard->Counters();
  EXPECT_EQ(counters.at(JobId(record.job_id())).pushes, 2 * 4 * map.chunks());
  EXPECT_EQ(counters.at(JobId(record.job_id())).answers, 2 * 4 * map.chunks());
  EXPECT_TRUE(shard->Remove(JobId(record.job_id())).ok());
  EXPECT_TRUE(shard->Counters().empty());
  shard->Stop();
}

TEST(ShardThread, InstallReportsWhatTheCoreReports) {
  auto shard = StartedShard();
  proto::JobRecord record = MakeRecord(SomeChunks());
  ASSERT_TRUE(shard->Install(record, ShardId(0)).ok());
  record.set_token(4);
  EXPECT_EQ(shard->Install(record, ShardId(0)).code(), absl::StatusCode::kAlreadyExists);
  record.set_job_id(8);
  EXPECT_EQ(shard->Install(record, ShardId(5)).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ShardThread, TakesChangesOfAJobsNodesWhileItRuns) {
  JobOptions options = SomeChunks();
  options.ranks = {1, 1, 1};
  proto::JobRecord record = MakeRecord(options);
  record.mutable_view()->mutable_nodes(2)->set_absent(true);
  proto::ViewChange change;
  change.set_job_id(record.job_id());
  change.set_number(4);
  change.set_at_clock(9);
  change.add_joined(2);
  const auto change_view = [&](ShardCore& core, auto*) { return core.ChangeView(change); };
  auto shard = StartedShard();
  EXPECT_EQ(shard->Call(change_view).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(shard->Install(record, ShardId(0)).ok());
  EXPECT_TRUE(shard->NextReports().at(JobId(record.job_id())).nodes[2].retired());
  EXPECT_EQ(shard->Call(change_view), absl::OkStatus());
  EXPECT_EQ(shard->NextReports().at(JobId(record.job_id())).nodes[2].clock(), 9u);
  shard->Stop();
  EXPECT_EQ(shard->Call(change_view).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ShardThread, APortInUseIsNamed) {
  auto first = StartedShard();
  ShardThread::Options options;
  options.listen = absl::StrFormat("tcp://127.0.0.1:%d", first->port());
  ShardThread second(options, kernels::Cpu(), NewEndpoint());
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(std::string(status.message()).find(std::to_string(first->port())), std::string::npos);
}

TEST(ShardThread, StopsTwiceAndRefusesWorkWhenItDoesNotRun) {
  ShardThread never({}, kernels::Cpu(), NewEndpoint());
  never.Stop();
  EXPECT_EQ(never.Install(MakeRecord(SomeChunks()), ShardId(0)).code(),
            absl::StatusCode::kFailedPrecondition);
  auto shard = StartedShard();
  shard->Stop();
  shard->Stop();
  EXPECT_TRUE(shard->Counters().empty());
}

TEST(ShardThread, LettingGoOfCutsDoesNotWaitForABusyShard) {
  auto shard = StartedShard();
  absl::Notification is_busy, may_go_on;
  std::thread caller([&] {
    const absl::Status called = shard->Call([&](ShardCore&, auto*) {
      is_busy.Notify();
      may_go_on.WaitForNotification();
      return absl::OkStatus();
    });
    EXPECT_TRUE(called.ok());
  });
  is_busy.WaitForNotification();
  constexpr uint64_t kMoreThanItsQueueHolds = 70000;
  for (uint64_t clock = 0; clock < kMoreThanItsQueueHolds; ++clock) {
    shard->ReleaseCut(JobId(7), ShardId(0), clock);
  }
  may_go_on.Notify();
  caller.join();
}

// An endpoint whose peers take nothing until told to: frames wait in the shard, in order and up to
// a limit, and leave when there is room.
class StubbornEndpoint : public transport::Endpoint {
 public:
  absl::StatusOr<int> Listen(const std::string&) override { return 1; }
  absl::StatusOr<ConnectionId> Connect(const std::string&) override {
    return absl::UnimplementedError("");
  }
  absl::Status Send(ConnectionId, const Frame& frame) override {
    absl::MutexLock lock(&mutex_);
    if (!has_room_) return absl::ResourceExhaustedError("full");
    sent_.push_back(frame);
    return absl::OkStatus();
  }
  void Poll(absl::Duration timeout, std::vector<Event>* events) override {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this] {
      mutex_.AssertReaderHeld();
      return woken_ || !arriving_.empty();
    };
    mutex_.AwaitWithTimeout(absl::Condition(&ready), timeout);
    woken_ = false;
    for (Event& event : arriving_) events->push_back(std::move(event));
    arriving_.clear();
  }
  void WatchFd(int) override {}
  void Close(ConnectionId) override {}
  void Wake() override {
    absl::MutexLock lock(&mutex_);
    woken_ = true;
  }

  void Arrive(const Frame& frame, ConnectionId connection = ConnectionId(1)) {
    absl::MutexLock lock(&mutex_);
    arriving_.push_back({.connection = connection, .frame = frame});
  }
  void MakeRoom() {
    absl::MutexLock lock(&mutex_);
    has_room_ = true;
  }
  std::vector<Frame> AwaitSent(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] {
      mutex_.AssertReaderHeld();
      return sent_.size() >= count;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kDeadline);
    return sent_;
  }

 private:
  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_room_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Event> arriving_ ABSL_GUARDED_BY(mutex_);
  std::vector<Frame> sent_ ABSL_GUARDED_BY(mutex_);
};

TEST(ShardThread, AnswersWaitForAFullPeerInOrderAndUpToTheirBound) {
  auto owned = std::make_unique<StubbornEndpoint>();
  StubbornEndpoint* endpoint = owned.get();
  ShardThread shard({.listen = "", .waiting_frames_max = 3}, kernels::Cpu(), std::move(owned));
  ASSERT_TRUE(shard.Start().ok());
  const proto::JobRecord record = MakeRecord(SomeChunks());
  ASSERT_TRUE(shard.Install(record, ShardId(0)).ok());
  endpoint->Arrive(HelloFrame(record, 0));
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    endpoint->Arrive(InitFrame(record, 0, chunk, std::vector<float>(1024)));
  }
  // All five have been handled once this has run after them.
  while (shard.Counters().at(JobId(record.job_id())).bytes_received < 4 * 4096) {
  }
  endpoint->MakeRoom();
  endpoint->AwaitSent(3);
  shard.Stop();
  const std::vector<Frame> sent = endpoint->AwaitSent(3);
  ASSERT_EQ(sent.size(), 3u) << "the two beyond the bound were dropped";
  EXPECT_EQ(sent[0].header.op, Op::kHelloOk);
  EXPECT_EQ(sent[1].header.chunk, 0u);
  EXPECT_EQ(sent[2].header.chunk, 1u);
}

// The memory of one job, with its blocks.
class JobMemory final : public BlockSource {
 public:
  std::byte* Take(size_t bytes) override {
    auto* block = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
    absl::MutexLock lock(&mutex_);
    blocks_.insert(block);
    return block;
  }
  bool GiveBack(std::byte* block, size_t) override {
    absl::MutexLock lock(&mutex_);
    if (blocks_.erase(block) == 0) return false;
    std::free(block);
    return true;
  }
  bool Has(const Bytes& bytes) {
    absl::MutexLock lock(&mutex_);
    return blocks_.contains(bytes.data());
  }

 private:
  absl::Mutex mutex_;
  std::set<const std::byte*> blocks_ ABSL_GUARDED_BY(mutex_);
};

// An endpoint that records what it is told about memory.
class MemoryEndpoint final : public StubbornEndpoint {
 public:
  MemoryEndpoint() { MakeRoom(); }
  std::shared_ptr<BlockSource> NewMemory() override {
    made.push_back(std::make_shared<JobMemory>());
    return made.back();
  }
  void Admit(ConnectionId connection, const std::shared_ptr<BlockSource>& memory) override {
    admitted[connection.value()] = memory;
  }

  // Written by the shard's thread.
  std::vector<std::shared_ptr<JobMemory>> made;
  std::map<uint64_t, std::shared_ptr<BlockSource>> admitted;
};

TEST(ShardThread, APeerIsHandedTheMemoryOfItsOwnJobAndOfNoOther) {
  auto owned = std::make_unique<MemoryEndpoint>();
  MemoryEndpoint* endpoint = owned.get();
  ShardThread shard({.listen = ""}, kernels::Cpu(), std::move(owned));
  ASSERT_TRUE(shard.Start().ok());
  JobOptions options = SomeChunks();
  options.ranks = {1};
  options.elements = 1024;
  std::vector<proto::JobRecord> jobs;
  for (const uint32_t job : {7, 8}) {
    options.job = job;
    jobs.push_back(MakeRecord(options));
    ASSERT_TRUE(shard.Install(jobs.back(), ShardId(0)).ok());
  }
  for (const proto::JobRecord& job : jobs) {
    const ConnectionId connection(job.job_id());
    endpoint->Arrive(HelloFrame(job, 0), connection);
    endpoint->Arrive(InitFrame(job, 0, 0, std::vector<float>(1024, 1)), connection);
    endpoint->Arrive(PushFrame(job, 0, 0, 0, std::vector<float>(1024, 1), 4), connection);
  }
  // A member of one job that asks for the other's memory.
  proto::JobRecord wrong = jobs[1];
  wrong.set_token(jobs[0].token());
  endpoint->Arrive(HelloFrame(wrong, 0), ConnectionId(9));
  endpoint->AwaitSent(2 * 3 + 1);
  shard.Stop();

  ASSERT_EQ(endpoint->made.size(), 2u);
  ASSERT_EQ(endpoint->admitted.size(), 2u) << "and not the third peer";
  EXPECT_EQ(endpoint->admitted[7], endpoint->made[0]);
  EXPECT_EQ(endpoint->admitted[8], endpoint->made[1]);
  // It is the memory that holds the job's answers, and no other job's.
  size_t answers = 0;
  for (const Frame& frame : endpoint->AwaitSent(7)) {
    if (frame.header.op != Op::kAnswer) continue;
    ++answers;
    const size_t own = frame.header.job - 7;
    EXPECT_TRUE(endpoint->made[own]->Has(frame.payload)) << "job " << frame.header.job;
    EXPECT_FALSE(endpoint->made[1 - own]->Has(frame.payload)) << "job " << frame.header.job;
  }
  EXPECT_EQ(answers, 2u);
}

}  // namespace
}  // namespace strata::server
