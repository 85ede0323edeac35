// The two copies of a shard: which peers each accepts, and what one sends the other.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::ErrorCode;
using wire::Frame;
using wire::Op;

const std::vector<float> kWeights = {1, 2, 3, 4};
const JobId kJob(7);
constexpr char kSync[] = "optimizer { sgd {} } schedule { base_lr: 1 }";

proto::JobRecord RecordWithBackup(JobOptions options = {.job_text = kSync}) {
  proto::JobRecord record = MakeRecord(options);
  for (uint32_t shard = 0; shard < options.shards; ++shard) {
    record.mutable_placement()->add_backup_endpoints("tcp://127.0.0.1:9100");
  }
  return record;
}

Frame PrimaryHello(const proto::JobRecord& record, uint32_t generation) {
  wire::Hello hello;
  hello.protocol = kProtocolVersion;
  hello.role = wire::Hello::Role::kPrimary;
  hello.cluster = record.cluster();
  hello.token = record.token();
  const auto bytes = std::make_shared<std::array<std::byte, wire::kHelloBytes>>(EncodeHello(hello));
  Frame frame = ControlFrame(record, Op::kHello, 0, 0, 0);
  frame.header.generation = generation;
  frame.payload = Bytes(bytes, bytes->data(), bytes->size());
  return frame;
}

// A change as the primary sends it.
Frame Change(Frame frame, uint64_t sequence) {
  frame.header.sequence = sequence;
  return frame;
}

class BackupTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(shard_.core().Install(record_, ShardId(0), {}, ShardCopy::kBackup).ok());
  }
  void Follow(Frame change) {
    const Frame ack = shard_.DeliverForOne(primary_, Change(std::move(change), ++said_));
    EXPECT_EQ(ack.header.op, Op::kAck) << wire::Describe(ack.header);
    EXPECT_EQ(ack.header.received, said_);
  }
  absl::Status Promote(uint32_t generation) {
    std::vector<ShardAction> actions;
    absl::Status promoted = shard_.core().Promote(kJob, ShardId(0), generation, &actions);
    for (const ShardAction& action : actions) {
      EXPECT_EQ(action.kind, ShardAction::Kind::kClose);
      closed_.push_back(action.connection);
    }
    return promoted;
  }

  proto::JobRecord record_ = RecordWithBackup();
  ShardHarness shard_;
  ConnectionId primary_ = shard_.Connect();
  std::vector<ConnectionId> closed_;
  uint64_t said_ = 0;
};

TEST_F(BackupTest, HearsItsPrimaryOfThisGenerationAlone) {
  Frame stranger = PrimaryHello(record_, 2);
  record_.set_token(1);
  EXPECT_EQ(shard_.DeliverForOne(primary_, PrimaryHello(record_, 2)).header.error,
            ErrorCode::kWrongJob);
  record_ = RecordWithBackup();
  EXPECT_EQ(shard_.DeliverForOne(primary_, PrimaryHello(record_, 1)).header.error,
            ErrorCode::kFenced);
  EXPECT_EQ(shard_.DeliverForOne(primary_, PrimaryHello(record_, 3)).header.op, Op::kRetry);
  EXPECT_EQ(shard_.DeliverForOne(primary_, stranger).header.op, Op::kHelloOk);
}

TEST_F(BackupTest, HearsNoNodeUntilItIsThePrimary) {
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), HelloFrame(record_, 0)).header.op, Op::kRetry);
  shard_.DeliverForOne(primary_, PrimaryHello(record_, 2));
  Follow(InitFrame(record_, 0, 0, kWeights));
  EXPECT_EQ(Promote(3), absl::OkStatus());
  EXPECT_EQ(closed_, std::vector<ConnectionId>({primary_}));
  const ConnectionId node = shard_.Connect();
  EXPECT_EQ(shard_.DeliverForOne(node, HelloFrame(record_, 0)).header.op, Op::kRetry)
      << "it says the generation of before";
  record_.mutable_placement()->set_generation(3);
  EXPECT_EQ(shard_.DeliverForOne(node, HelloFrame(record_, 0)).header.op, Op::kHelloOk);
  EXPECT_EQ(shard_.DeliverForOne(node, InitFrame(record_, 0, 0, kWeights)).header.op, Op::kInitOk);
}

TEST_F(BackupTest, WhatItsFormerPrimaryHadUnderWayIsRefusedAsExpected) {
  shard_.DeliverForOne(primary_, PrimaryHello(record_, 2));
  Follow(InitFrame(record_, 0, 0, kWeights));
  EXPECT_EQ(Promote(3), absl::OkStatus());
  // The next change was sent before the former primary knew; then it reconnects.
  EXPECT_EQ(
      shard_.DeliverForOne(primary_, Change(InitFrame(record_, 0, 1, kWeights), 2)).header.error,
      ErrorCode::kNoHello);
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), PrimaryHello(record_, 2)).header.error,
            ErrorCode::kFenced);
  EXPECT_EQ(shard_.core().refusals(),
            (Refusals{{"frame of a shard that has left", 1}, {"old incarnation", 1}}));
  for (const auto& [cause, count] : shard_.core().refusals()) EXPECT_TRUE(IsExpected(cause));
  // Strangers' frames are refused.
  shard_.DeliverForOne(shard_.Connect(), InitFrame(record_, 0, 1, kWeights));
  EXPECT_EQ(shard_.core().refusals().at("before HELLO"), 1u);
  EXPECT_FALSE(IsExpected("before HELLO"));
}

TEST_F(BackupTest, TheNextConnectionOfThePrimaryGoesOnWhereTheOneBeforeEnded) {
  shard_.DeliverForOne(primary_, PrimaryHello(record_, 2));
  Follow(InitFrame(record_, 0, 0, kWeights));
  Follow(InitFrame(record_, 0, 1, kWeights));
  const ConnectionId next = shard_.Connect();
  std::vector<ShardAction> actions;
  shard_.core().OnFrame(next, PrimaryHello(record_, 2), absl::UnixEpoch(), &actions);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(actions[0].kind, ShardAction::Kind::kClose);
  EXPECT_EQ(actions[0].connection, primary_);
  EXPECT_EQ(actions[1].frame.header.op, Op::kHelloOk);
  EXPECT_EQ(actions[1].frame.header.received, 2u);
  // A repeated change has no effect, and one that comes too early is refused.
  primary_ = next;
  EXPECT_EQ(
      shard_.DeliverForOne(next, Change(InitFrame(record_, 0, 0, kWeights), 1)).header.received,
      2u);
  EXPECT_EQ(
      shard_.DeliverForOne(next, Change(InitFrame(record_, 0, 0, kWeights), 4)).header.received,
      2u);
}

TEST_F(BackupTest, RefusesWhatItCannotFollow) {
  shard_.DeliverForOne(primary_, PrimaryHello(record_, 2));
  Frame clock = PushFrame(record_, 0, 0, 0, kWeights, 4);
  clock.header.op = Op::kApply;
  clock.header.received = 4;
  const auto refused = [&](Frame frame) {
    const Frame reply = shard_.DeliverForOne(primary_, Change(std::move(frame), said_ + 1));
    EXPECT_EQ(reply.header.op, Op::kError);
    return std::string(reinterpret_cast<const char*>(reply.payload.data()), reply.payload.size());
  };
  refused(clock);  // it has no first weights
  Follow(InitFrame(record_, 0, 0, kWeights));
  clock.header.clock = 1;
  refused(clock);  // it is not the next one
  clock.header.clock = 0;
  Frame other = clock;
  other.header.chunk = 9;
  refused(other);
  other = clock;
  other.payload = ToBytes({1, 2});
  other.header.element_count = 2;
  refused(other);
  other = clock;
  other.header.generation = 1;
  refused(other);
  other = ControlFrame(record_, Op::kCut, 0, 0, 0);
  refused(other);
  Frame stranger = PushFrame(record_, 5, 0, 0, kWeights, 4);
  refused(stranger);
  Follow(clock);
}

TEST_F(BackupTest, IsPromotedOnceAndToANewerGenerationAlone) {
  EXPECT_EQ(Promote(2).message(), "job 7 shard 0 is in generation 2, 2 is not newer");
  EXPECT_EQ(Promote(4), absl::OkStatus());
  EXPECT_EQ(Promote(4), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(Promote(3)));
  std::vector<ShardAction> actions;
  EXPECT_EQ(shard_.core().Promote(kJob, ShardId(5), 4, &actions).message(),
            "shard 5 of job 7 is not here");
  EXPECT_EQ(shard_.DeliverForOne(primary_, PrimaryHello(record_, 4)).header.error,
            ErrorCode::kWrongRole);
}

TEST_F(BackupTest, ABackupDoesNotGoOnAlone) {
  std::vector<ShardAction> actions;
  EXPECT_EQ(shard_.core().ContinueWithoutBackup(kJob, ShardId(0), 3, &actions).message(),
            "job 7 shard 0 is a backup here");
}

TEST(Copies, OneThreadHoldsShardsOfOneJobApart) {
  JobOptions options{.shards = 2, .job_text = kSync};
  const proto::JobRecord record = RecordWithBackup(options);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  ASSERT_TRUE(shard.core().Install(record, ShardId(1), {}, ShardCopy::kBackup).ok());
  EXPECT_EQ(shard.core().BackupStates().size(), 1u);
  const ConnectionId node = shard.Join(record, 0);
  EXPECT_EQ(shard.DeliverForOne(node, HelloFrame(record, 0, 1, 0, 1)).header.error,
            ErrorCode::kWrongJob)
      << "a connection is of one shard";
  EXPECT_EQ(shard.DeliverForOne(shard.Connect(), HelloFrame(record, 0, 1, 0, 1)).header.op,
            Op::kRetry);
  std::vector<ShardAction> actions;
  shard.core().Remove(kJob, &actions);
  EXPECT_EQ(shard.DeliverForOne(node, InitFrame(record, 0, 0, kWeights)).header.error,
            ErrorCode::kNoHello);
}

TEST(Copies, ANodeDoesNotCountItsFrames) {
  const proto::JobRecord record = MakeRecord({});
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId node = shard.Join(record, 0);
  EXPECT_EQ(shard.DeliverForOne(node, Change(InitFrame(record, 0, 0, kWeights), 1)).header.error,
            ErrorCode::kMalformed);
}

// The first node's push waits for the grace, which ends by the primary's clock.
TEST(Copies, TheGraceOfAQuorumEndsAtTheBackupWhenItEndsAtThePrimary) {
  JobOptions options;
  options.job_text =
      "optimizer { sgd {} } schedule { base_lr: 1 } "
      "consistency { lazy { quorum { nodes: 1 grace_ms: 100 } } }";
  const proto::JobRecord record = RecordWithBackup(options);
  ShardHarness backup;
  ASSERT_TRUE(backup.core().Install(record, ShardId(0), {}, ShardCopy::kBackup).ok());
  const ConnectionId primary = backup.Connect();
  backup.DeliverForOne(primary, PrimaryHello(record, 2));
  const auto follow = [&](Frame change, uint64_t sequence, absl::Time at) {
    change.header.min_clock = static_cast<uint64_t>(absl::ToUnixNanos(at));
    EXPECT_EQ(backup.DeliverForOne(primary, Change(std::move(change), sequence)).header.op,
              Op::kAck);
  };
  const absl::Time begin = absl::FromUnixSeconds(5000);  // the backup's own clock is far behind
  follow(InitFrame(record, 0, 0, kWeights), 1, begin);
  follow(PushFrame(record, 0, 0, 0, {4, 4, 4, 4}, 4), 2, begin);
  EXPECT_EQ(backup.core().HeldSums(kJob, ChunkId(0)), 1u);
  EXPECT_EQ(backup.core().deadline(), absl::InfiniteFuture());
  Frame over = ControlFrame(record, Op::kApply, 0, 0, 0);
  over.header.flags = wire::kFlagEmpty;
  follow(over, 3, begin + absl::Milliseconds(100));
  EXPECT_EQ(backup.core().HeldSums(kJob, ChunkId(0)), 0u);
  // As the primary it uses its own clock: the rest of a running grace remains.
  follow(PushFrame(record, 0, 0, 1, {4, 4, 4, 4}, 4, 1), 4, begin + absl::Milliseconds(200));
  std::vector<ShardAction> actions;
  ASSERT_TRUE(backup.core().Promote(kJob, ShardId(0), 3, &actions).ok());
  EXPECT_EQ(backup.core().deadline(), absl::UnixEpoch() + absl::Milliseconds(100));
  backup.PassTime(absl::Milliseconds(101));
  EXPECT_EQ(backup.core().HeldSums(kJob, ChunkId(0)), 0u);
}

// Simulates a server that does not have the job yet, whose frames are sealed.
TEST(Primary, SaysHelloAgainSoonToABackupThatDoesNotAnswer) {
  ShardCore core(kernels::Cpu());
  ASSERT_EQ(core.Install(RecordWithBackup(), ShardId(0)), absl::OkStatus());
  absl::Time now = absl::UnixEpoch();
  std::vector<ShardAction> actions;
  core.OnTime(now, &actions);
  ASSERT_EQ(actions.size(), 1u);
  ASSERT_EQ(actions[0].kind, ShardAction::Kind::kConnect);
  const ShardAction asked = std::exchange(actions, {})[0];
  core.OnConnected(asked, ConnectionId(9), now, &actions);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].frame.header.op, Op::kHello);
  actions.clear();
  // Well before the coordinator concludes that it does not follow.
  for (const absl::Time end = now + absl::Milliseconds(1500); now < end && actions.size() < 2;) {
    now = core.deadline();
    core.OnTime(now, &actions);
  }
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(actions[0].kind, ShardAction::Kind::kClose);
  EXPECT_EQ(actions[1].kind, ShardAction::Kind::kConnect);
  EXPECT_LT(now, absl::UnixEpoch() + absl::Milliseconds(1500));
}

// As after a move: the coordinator gets one report per node, whatever else is on the thread.
TEST(Copies, OnOneThreadSayOfEachNodeHowFarItIsWithTheLeastOfThem) {
  const proto::JobRecord record = RecordWithBackup({.shards = 2, .job_text = kSync});
  ShardHarness shard;
  for (const uint32_t own : {0u, 1u}) {
    ASSERT_TRUE(shard.core().Install(record, ShardId(own), {}, ShardCopy::kBackup).ok());
  }
  EXPECT_TRUE(shard.core().NextReports().at(kJob).nodes.empty()) << "no node speaks with backups";
  std::vector<ConnectionId> connections;
  for (const uint32_t own : {0u, 1u}) {
    std::vector<ShardAction> actions;
    ASSERT_TRUE(shard.core().Promote(kJob, ShardId(own), 3, &actions).ok());
  }
  proto::JobRecord moved = record;
  moved.mutable_placement()->set_generation(3);
  for (const uint32_t own : {0u, 1u}) connections.push_back(shard.Join(moved, 0, 1, 0, own));
  const auto say = [&](Frame frame, uint32_t own) {
    frame.header.generation = 3;
    shard.Deliver(connections[own], frame);
  };
  for (const uint32_t own : {0u, 1u}) say(InitFrame(record, 0, own, kWeights), own);
  say(PushFrame(record, 0, 0, 0, kWeights, 4), 0);
  std::vector<proto::NodeClock> nodes = shard.core().NextReports().at(kJob).nodes;
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].clock(), 0u);
  EXPECT_EQ(nodes[0].chunk(), 1u);
  EXPECT_EQ(nodes[0].unanswered(), 1u);
  EXPECT_TRUE(nodes[0].connected());
  EXPECT_FALSE(nodes[1].connected());
  say(PushFrame(record, 0, 1, 0, kWeights, 4), 1);
  nodes = shard.core().NextReports().at(kJob).nodes;
  EXPECT_EQ(nodes[0].clock(), 1u);
  EXPECT_EQ(nodes[0].unanswered(), 2u);
}

// The primary fills its next backup, which receives a chunk part by part.
TEST(Copies, WhatIsOnItsWayToTheNextCopyIsMemoryOfBoth) {
  const absl::Time now = absl::UnixEpoch();
  proto::JobRecord record = MakeRecord(
      {.job_text = "optimizer { momentum_sgd { momentum: 0.9 } } schedule { base_lr: 1 }"});
  ShardHarness primary, next;
  ASSERT_TRUE(primary.core().Install(record, ShardId(0)).ok());
  const ConnectionId node = primary.Join(record, 0);
  for (const uint32_t chunk : {0u, 1u}) {
    primary.DeliverForOne(node, InitFrame(record, 0, chunk, kWeights));
  }
  record.mutable_placement()->set_generation(3);
  record.mutable_placement()->add_backup_endpoints("tcp://127.0.0.1:9200");
  ASSERT_TRUE(next.core().Install(record, ShardId(0), {}, ShardCopy::kEmptyBackup).ok());
  const auto held = [](ShardHarness& shard) {
    return shard.core().NextReports().at(kJob).memory_bytes;
  };
  const uint64_t before = held(primary), before_at_next = held(next);

  std::vector<ShardAction> actions;
  ASSERT_TRUE(primary.core().FillNext(kJob, ShardId(0), 3, "tcp://127.0.0.1:9200", &actions).ok());
  primary.core().OnTime(now, &actions);
  ASSERT_EQ(actions.size(), 1u);
  const ShardAction asked = std::exchange(actions, {})[0];
  primary.core().OnConnected(asked, ConnectionId(99), now, &actions);
  ASSERT_EQ(actions.size(), 1u);
  const ConnectionId line = next.Connect();
  Frame heard = next.DeliverForOne(line, std::exchange(actions, {})[0].frame);
  ASSERT_EQ(heard.header.op, Op::kHelloOk);
  primary.core().OnFrame(ConnectionId(99), heard, now, &actions);
  ASSERT_EQ(actions.size(), 6u) << "of each chunk what is in it, weights and momentum";
  uint64_t said = 0;
  for (const ShardAction& action : actions) {
    EXPECT_EQ(action.frame.header.op, Op::kCopy);
    said += wire::kHeaderBytes + action.frame.payload.size();
  }
  EXPECT_EQ(held(primary), before + said);

  const uint64_t vector = kWeights.size() * sizeof(float);
  const std::vector<uint64_t> at_next = {0, vector, 2 * vector, 2 * vector, 3 * vector, 4 * vector};
  for (size_t part = 0; part < actions.size(); ++part) {
    heard = next.DeliverForOne(line, actions[part].frame);
    EXPECT_EQ(held(next), before_at_next + at_next[part]) << "after part " << part;
  }
  std::vector<ShardAction> none;
  primary.core().OnFrame(ConnectionId(99), heard, now, &none);
  EXPECT_EQ(held(primary), before);
}

// The backup has a change that the next backup does not have when the primary loses both.
TEST(Primary, WhatWaitedForTheNextBackupIsSaidAloneOnlyIfTheJobDoesNotWait) {
  for (const bool waits : {false, true}) {
    JobOptions options{.ranks = {1}, .job_text = kSync};
    if (waits) options.job_text += std::string(" replicas: 1 while_unprotected: WAIT");
    const proto::JobRecord record = RecordWithBackup(options);
    const absl::Time now = absl::UnixEpoch();
    ShardHarness backup;
    ASSERT_TRUE(backup.core().Install(record, ShardId(0), {}, ShardCopy::kBackup).ok());
    ShardCore primary(kernels::Cpu());
    ASSERT_TRUE(primary.Install(record, ShardId(0)).ok());
    const ConnectionId node(1), to_backup(2), of_primary = backup.Connect();
    std::vector<ShardAction> actions;
    primary.OnTime(now, &actions);
    ASSERT_EQ(actions.size(), 1u);
    primary.OnConnected(std::exchange(actions, {})[0], to_backup, now, &actions);
    // Returns what the node is told, and lets the backup hear the rest.
    const auto told = [&] {
      std::vector<Op> ops;
      while (!actions.empty()) {
        for (const ShardAction& action : std::exchange(actions, {})) {
          if (action.kind != ShardAction::Kind::kSend) continue;
          if (action.connection == node) ops.push_back(action.frame.header.op);
          if (action.connection != to_backup) continue;
          primary.OnFrame(to_backup, backup.DeliverForOne(of_primary, action.frame), now, &actions);
        }
      }
      return ops;
    };
    told();
    primary.OnFrame(node, HelloFrame(record, 0), now, &actions);
    primary.OnFrame(node, InitFrame(record, 0, 0, kWeights), now, &actions);
    ASSERT_EQ(told(), std::vector<Op>({Op::kHelloOk, Op::kInitOk}));

    ASSERT_TRUE(primary.FillNext(kJob, ShardId(0), 3, "tcp://127.0.0.1:9200", &actions).ok());
    primary.OnTime(now, &actions);
    const ConnectionId to_next(3);
    ASSERT_EQ(actions.size(), 1u);
    primary.OnConnected(std::exchange(actions, {})[0], to_next, now, &actions);
    actions.clear();
    Frame greeted = ControlFrame(record, Op::kHelloOk, 0, 0, 0);
    primary.OnFrame(to_next, greeted, now, &actions);  // it gets the chunks and says nothing more
    primary.OnFrame(node, PushFrame(record, 0, 0, 0, kWeights, 4), now, &actions);
    EXPECT_EQ(told(), std::vector<Op>());
    ASSERT_TRUE(primary.ContinueWithoutBackup(kJob, ShardId(0), 4, &actions).ok());
    EXPECT_EQ(told(), waits ? std::vector<Op>() : std::vector<Op>({Op::kAnswer}));
  }
}

}  // namespace
}  // namespace strata::server
