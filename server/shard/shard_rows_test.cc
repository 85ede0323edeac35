#include "server/shard/shard_rows.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rows/row_key.h"
#include "server/testing/shard_harness.h"

// Rows on a shard: pushes, lookups and what is refused, frame by frame.

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::ErrorCode;
using wire::Op;

constexpr uint64_t kSeed = 5;

proto::JobRecord RecordWithRows(const std::string& mode = "async {}", uint32_t shards = 1) {
  JobOptions options;
  options.elements = options.chunk_elements = 1;
  options.shards = shards;
  options.job_text = "optimizer { sgd {} } consistency { " + mode + " }";
  proto::JobRecord record = MakeRecord(options);
  record.mutable_layout()->mutable_tables()->Clear();
  for (const char* name : {"users", "items"}) {
    *record.mutable_layout()->add_tables() =
        rows::ToProto({.name = name,
                       .columns = 2,
                       .capacity = 1000,
                       .seed = kSeed,
                       .initial = {.kind = rows::InitialValues::Kind::kConstant, .scale = 8.0f},
                       .optimizer = {.kind = rows::RowOptimizerKind::kSgd}});
  }
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    record.mutable_placement()->add_shard_of_bucket(bucket % shards);
  }
  return record;
}

// The first ids of a bucket among 4.
std::vector<uint64_t> IdsOf(uint32_t bucket, size_t count) {
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; ids.size() < count; ++id) {
    if (rows::HighBits(rows::HashOf(kSeed, id), 2) == bucket) ids.push_back(id);
  }
  return ids;
}

const std::vector<uint32_t> kColumns = {2, 2};

class RowsOfShard : public testing::Test {
 protected:
  explicit RowsOfShard(const std::string& mode = "async {}") : record_(RecordWithRows(mode)) {}

  void SetUp() override {
    ASSERT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node = 0; node < 2; ++node) {
      nodes_.push_back(shard_.Join(record_, node, /*incarnation=*/1, /*connection=*/1));
    }
  }

  wire::Frame Frame(Op op, uint32_t node, uint32_t bucket, uint64_t clock) const {
    wire::Frame frame = ControlFrame(record_, op, node, bucket, clock);
    frame.header.key_space = wire::KeySpace::kRows;
    return frame;
  }
  static void SetPayload(wire::Frame* frame, Bytes payload, uint32_t elements) {
    frame->header.element_count = elements;
    frame->header.payload_checksum = wire::PayloadChecksum(payload);
    frame->payload = std::move(payload);
  }
  // Pushes the same gradient to all columns of rows of "items".
  wire::Frame PushOf(uint32_t node, uint32_t bucket, uint64_t clock,
                     const std::vector<uint64_t>& ids, float sum, uint32_t samples = 4,
                     uint64_t base_version = 0, float rate = 1.0f) const {
    wire::Frame frame = Frame(Op::kPushPull, node, bucket, clock);
    const std::vector<float> values(ids.size() * 2, sum);
    SetPayload(&frame,
               wire::EncodeRows({{.table = 1, .rate = rate, .ids = ids, .values = values.data()}},
                                {}, kColumns),
               static_cast<uint32_t>(values.size()));
    frame.header.sample_count = samples;
    frame.header.base_version = base_version;
    return frame;
  }
  wire::Frame Lookup(uint32_t node, uint32_t table, const std::vector<uint64_t>& ids,
                     uint64_t number = 1) const {
    wire::Frame frame = Frame(Op::kLookup, node, /*bucket=*/0, number);
    SetPayload(&frame, wire::EncodeRows({}, {{.table = table, .ids = ids}}, kColumns), 0);
    return frame;
  }
  wire::Frame Send(uint32_t node, const wire::Frame& frame) {
    return shard_.DeliverForOne(nodes_[node], frame);
  }
  std::vector<float> Weights(const std::vector<uint64_t>& ids, uint32_t table = 1) {
    const wire::Frame found = Send(0, Lookup(0, table, ids, ++lookups_));
    EXPECT_EQ(found.header.op, Op::kRows);
    EXPECT_EQ(found.header.clock, lookups_);
    EXPECT_EQ(found.header.key_space, wire::KeySpace::kRows);
    return ToFloats(found);
  }
  std::string Text(const wire::Frame& error) {
    EXPECT_EQ(error.header.op, Op::kError);
    return {reinterpret_cast<const char*>(error.payload.data()), error.payload.size()};
  }

  // Returns what the shard sends to each node.
  std::vector<std::vector<wire::Frame>> Deliver(uint32_t node, const wire::Frame& frame) {
    std::vector<std::vector<wire::Frame>> sent(nodes_.size());
    for (const Sent& one : shard_.Deliver(nodes_[node], frame)) {
      const auto to = std::find(nodes_.begin(), nodes_.end(), one.connection);
      sent[to - nodes_.begin()].push_back(one.frame);
    }
    return sent;
  }

  const proto::JobRecord record_;
  ShardHarness shard_;
  std::vector<ConnectionId> nodes_;
  uint64_t lookups_ = 0;
};

TEST_F(RowsOfShard, APushIsAppliedWhenItComesAndStoresItsRows) {
  const std::vector<uint64_t> ids = IdsOf(2, 2);
  EXPECT_EQ(Weights(ids), (std::vector<float>{8, 8, 8, 8}));
  wire::Frame answer = Send(0, PushOf(0, 2, 0, {ids[0]}, 4.0f));
  EXPECT_EQ(answer.header.op, Op::kAnswer);
  EXPECT_EQ(answer.header.key_space, wire::KeySpace::kRows);
  EXPECT_EQ(answer.header.version, 1u);
  EXPECT_EQ(answer.header.received, 1u);
  EXPECT_EQ(answer.header.staleness, 0u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{7, 7, 8, 8}));
  // The other table has the same ids, and rows of its own.
  EXPECT_EQ(Weights(ids, 0), (std::vector<float>{8, 8, 8, 8}));
  answer = Send(1, PushOf(1, 2, 0, ids, 8.0f));
  EXPECT_EQ(answer.header.version, 2u);
  EXPECT_EQ(answer.header.staleness, 1u);
  EXPECT_EQ(answer.header.min_clock, 1u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{5, 5, 6, 6}));
}

TEST_F(RowsOfShard, ARepeatedPushIsAnsweredAndCountsOnce) {
  const std::vector<uint64_t> ids = IdsOf(0, 1);
  const wire::Frame push = PushOf(0, 0, 0, ids, 4.0f);
  Send(0, push);
  const wire::Frame again = Send(0, push);
  EXPECT_EQ(again.header.op, Op::kAnswer);
  EXPECT_EQ(again.header.received, 1u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{7, 7}));
  const wire::Frame other = Send(0, PushOf(0, 0, 0, ids, 5.0f));
  EXPECT_EQ(other.header.error, ErrorCode::kConflict);
  // An older one than the last may come late.
  Send(0, PushOf(0, 0, 1, ids, 4.0f, 4, 1));
  EXPECT_EQ(Send(0, push).header.op, Op::kAnswer);
  EXPECT_EQ(Weights(ids), (std::vector<float>{6, 6}));
}

TEST_F(RowsOfShard, AnEmptyPushCountsAsAClockAndOneWithoutSamplesChangesNothing) {
  wire::Frame empty = Frame(Op::kPushPull, 0, 1, 0);
  empty.header.flags = wire::kFlagEmpty;
  empty.header.sample_count = 4;
  EXPECT_EQ(Send(0, empty).header.version, 1u);
  const std::vector<uint64_t> ids = IdsOf(1, 1);
  EXPECT_EQ(Send(0, PushOf(0, 1, 1, ids, 4.0f, 0, 1)).header.version, 2u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{8, 8}));
}

TEST_F(RowsOfShard, APushMayWantRowsWhichAreThoseAfterIt) {
  const std::vector<uint64_t> ids = IdsOf(3, 3);
  wire::Frame push = Frame(Op::kPushPull, 0, 3, 0);
  const std::vector<float> values = {4, 8};
  SetPayload(
      &push,
      wire::EncodeRows({{.table = 1, .rate = 1, .ids = {&ids[1], 1}, .values = values.data()}},
                       {{.table = 0, .ids = {&ids[0], 1}}, {.table = 1, .ids = ids}}, kColumns),
      2);
  push.header.sample_count = 4;
  const wire::Frame answer = Send(0, push);
  EXPECT_EQ(ToFloats(answer), (std::vector<float>{8, 8, 8, 8, 7, 6, 8, 8}));
}

TEST_F(RowsOfShard, WhatIsWrongIsRefusedByNameAndChangesNothing) {
  const std::vector<uint64_t> ids = IdsOf(0, 2), others = IdsOf(1, 1);
  const auto error = [&](const wire::Frame& frame, ErrorCode code) {
    const wire::Frame refused = Send(0, frame);
    EXPECT_EQ(refused.header.error, code);
    return Text(refused);
  };
  EXPECT_EQ(error(PushOf(0, 0, 1, ids, 1), ErrorCode::kBeyondWindow), "clock 1, expected 0");
  EXPECT_EQ(error(PushOf(0, 0, 0, ids, 1, 4, 9), ErrorCode::kBeyondWindow), "base_version 9 of 0");
  // Errors are no longer than what they answer, and say the most important first.
  EXPECT_EQ(error(PushOf(0, 0, 0, others, 1), ErrorCode::kWrongChunk),
            absl::StrCat("table \"items\": id ", others[0], " lies in bucket 1"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error(PushOf(0, 0, 0, ids, nan), ErrorCode::kNotFinite),
            absl::StrCat("table \"items\": id ", ids[0], ": NaN or infinity"));
  EXPECT_EQ(error(PushOf(0, 7, 0, ids, 1), ErrorCode::kWrongChunk), "bucket 7 is not here");
  wire::Frame pushing = Frame(Op::kLookup, 0, 0, 1);
  pushing.payload = PushOf(0, 0, 0, ids, 1).payload;
  pushing.header.payload_checksum = wire::PayloadChecksum(pushing.payload);
  EXPECT_EQ(error(pushing, ErrorCode::kMalformed), "0 values, not 4");
  EXPECT_EQ(Weights(ids), (std::vector<float>{8, 8, 8, 8}));
  EXPECT_EQ(Send(0, PushOf(0, 0, 0, ids, 4)).header.op, Op::kAnswer);
}

TEST_F(RowsOfShard, FramesOfRowsTakeTheirOwnConnection) {
  const ConnectionId dense = shard_.Join(record_, 0);
  const wire::Frame refused = shard_.DeliverForOne(dense, PushOf(0, 0, 0, IdsOf(0, 1), 1));
  EXPECT_EQ(refused.header.error, ErrorCode::kWrongConnection);
  const wire::Frame init = Send(0, InitFrame(record_, 0, 0, {0.0f}));
  EXPECT_EQ(init.header.error, ErrorCode::kWrongConnection);
  const wire::Frame hello =
      shard_.DeliverForOne(shard_.Connect(), HelloFrame(record_, 0, 1, /*connection=*/2));
  EXPECT_EQ(hello.header.error, ErrorCode::kWrongConnection);
}

TEST_F(RowsOfShard, ANodeThatHasRetiredPushesNoMoreAndHoldsUpNobodysClock) {
  const std::vector<uint64_t> ids = IdsOf(0, 1);
  Send(0, PushOf(0, 0, 0, ids, 4));
  EXPECT_EQ(Send(1, Frame(Op::kRetire, 1, 0, 0)).header.op, Op::kRetireOk);
  EXPECT_EQ(Send(0, PushOf(0, 0, 1, ids, 4, 4, 1)).header.min_clock, 2u);
  EXPECT_EQ(Send(1, PushOf(1, 0, 0, ids, 4)).header.error, ErrorCode::kBeyondWindow);
}

class RowsOfShardInSync : public RowsOfShard {
 protected:
  explicit RowsOfShardInSync(const std::string& mode = "sync {}") : RowsOfShard(mode) {}
};
class RowsOfShardInLazy : public RowsOfShardInSync {
 protected:
  RowsOfShardInLazy() : RowsOfShardInSync("lazy { staleness: 1 }") {}
};
class RowsOfShardOnArrival : public RowsOfShardInSync {
 protected:
  RowsOfShardOnArrival() : RowsOfShardInSync("lazy { staleness: 1 apply: ON_ARRIVAL }") {}
};

TEST_F(RowsOfShardInSync, AClockIsAppliedWhenAllHavePushedAndThenAllAreAnswered) {
  const std::vector<uint64_t> ids = IdsOf(2, 3);
  // The mean is over all samples of the clock: (4 + 2) / (1 + 2).
  EXPECT_TRUE(Deliver(1, PushOf(1, 2, 0, {ids[0], ids[1]}, 4, 1))[1].empty());
  EXPECT_EQ(Weights(ids), (std::vector<float>{8, 8, 8, 8, 8, 8}));
  const auto sent = Deliver(0, PushOf(0, 2, 0, {ids[0], ids[2]}, 2, 2));
  for (uint32_t node = 0; node < 2; ++node) {
    ASSERT_EQ(sent[node].size(), 1u) << node;
    const wire::Header& header = sent[node][0].header;
    EXPECT_EQ(header.op, Op::kAnswer);
    EXPECT_EQ(header.key_space, wire::KeySpace::kRows);
    EXPECT_EQ(header.node, node);
    EXPECT_EQ(header.chunk, 2u);
    EXPECT_EQ(header.clock, 0u);
    EXPECT_EQ(header.version, 1u);
    EXPECT_EQ(header.received, 1u);
    EXPECT_EQ(header.staleness, 0u);
  }
  EXPECT_EQ(Weights(ids),
            (std::vector<float>{6, 6, 8 - 4.0f / 3, 8 - 4.0f / 3, 8 - 2.0f / 3, 8 - 2.0f / 3}));
}

TEST_F(RowsOfShardInSync, TheAnswerHasTheRowsThatThePushWantsAfterTheWholeClock) {
  const std::vector<uint64_t> ids = IdsOf(3, 1);
  const std::vector<float> values = {4, 8};
  wire::Frame push = Frame(Op::kPushPull, 0, 3, 0);
  SetPayload(&push,
             wire::EncodeRows({{.table = 1, .rate = 1, .ids = ids, .values = values.data()}},
                              {{.table = 1, .ids = ids}}, kColumns),
             2);
  push.header.sample_count = 2;
  EXPECT_TRUE(Deliver(0, push)[0].empty());
  // It comes again while it waits: it is answered once, in its time.
  EXPECT_TRUE(Deliver(0, push)[0].empty());
  const auto sent = Deliver(1, PushOf(1, 3, 0, ids, 4, 2));
  ASSERT_EQ(sent[0].size(), 1u);
  EXPECT_EQ(ToFloats(sent[0][0]), (std::vector<float>{6, 5}));
  EXPECT_EQ(sent[1].size(), 1u);
  EXPECT_EQ(sent[1][0].payload.size(), 0u);
  // An answer that was lost is made again; the rows cannot have moved.
  EXPECT_EQ(ToFloats(Send(0, push)), (std::vector<float>{6, 5}));
  EXPECT_EQ(Weights(ids), (std::vector<float>{6, 5}));
}

TEST_F(RowsOfShardInSync, WhatDoesNotGoWithTheClockIsRefused) {
  const std::vector<uint64_t> ids = IdsOf(0, 1);
  Deliver(1, PushOf(1, 0, 0, ids, 1, 1));
  wire::Frame refused = Send(0, PushOf(0, 0, 0, ids, 1, 1, 0, 0.5f));
  EXPECT_EQ(refused.header.error, ErrorCode::kConflict);
  EXPECT_EQ(Text(refused), "table \"items\": rate 0.5, node 1 says 1");
  refused = Send(0, PushOf(0, 0, 0, ids, 1, 0));
  EXPECT_EQ(refused.header.error, ErrorCode::kMalformed);
  EXPECT_EQ(Text(refused), "sample_count is 0, but rows are pushed");
  const float most = std::numeric_limits<float>::max();
  Deliver(0, PushOf(0, 0, 0, ids, most, 1));
  Deliver(1, PushOf(1, 0, 1, ids, most, 1, 1));
  const auto sent = Deliver(0, PushOf(0, 0, 1, ids, most, 1, 1));
  for (uint32_t node = 0; node < 2; ++node) {
    ASSERT_EQ(sent[node].size(), 1u) << node;
    EXPECT_EQ(sent[node][0].header.error, ErrorCode::kNotFinite);
    EXPECT_EQ(Text(sent[node][0]).substr(0, 15), "table \"items\": ");
  }
  // Also if that was lost, and whatever comes next.
  EXPECT_EQ(Send(1, PushOf(1, 0, 1, ids, most, 1, 1)).header.error, ErrorCode::kNotFinite);
  EXPECT_EQ(Send(1, PushOf(1, 0, 2, ids, 1, 1, 1)).header.error, ErrorCode::kNotFinite);
}

TEST_F(RowsOfShardInSync, ANodePushesNoMoreThanTheBytesOfAStep) {
  proto::JobRecord record = record_;
  record.mutable_job()->mutable_rows()->set_bytes_per_step(1024);
  const auto rows = *ShardRows::Create(MakeShardPlan(record, ShardId(0))->rows, 2);
  std::vector<RowsAnswer> due;
  // 16 bytes a row, in all buckets of a step.
  const auto push = [&](uint32_t bucket, uint64_t clock, size_t count) {
    return rows->OnPush(bucket, 0, PushOf(0, bucket, clock, IdsOf(bucket, count), 1), &due);
  };
  EXPECT_EQ(push(0, 0, 40).error, ErrorCode::kNone);
  EXPECT_EQ(push(1, 0, 25).error, ErrorCode::kBeyondWindow);
  EXPECT_EQ(push(1, 0, 25).reason, "more than rows.bytes_per_step, 1024");
  EXPECT_EQ(push(1, 0, 24).error, ErrorCode::kNone);
  EXPECT_EQ(push(2, 0, 1).error, ErrorCode::kBeyondWindow);
  EXPECT_GE(rows->memory_bytes(), 64u * 16);
}

TEST_F(RowsOfShardInSync, ANodeThatRetiresCompletesTheClocksOfOthers) {
  const std::vector<uint64_t> ids = IdsOf(1, 1);
  EXPECT_TRUE(Deliver(0, PushOf(0, 1, 0, ids, 4, 4))[0].empty());
  const auto sent = Deliver(1, Frame(Op::kRetire, 1, 0, 0));
  EXPECT_EQ(sent[1][0].header.op, Op::kRetireOk);
  ASSERT_EQ(sent[0].size(), 1u);
  EXPECT_EQ(sent[0][0].header.op, Op::kAnswer);
  EXPECT_EQ(Weights(ids), (std::vector<float>{7, 7}));
}

TEST_F(RowsOfShardInLazy, APushOfTheNextClockIsAnsweredBeforeItIsApplied) {
  const std::vector<uint64_t> ids = IdsOf(0, 1);
  wire::Frame answer = Send(0, PushOf(0, 0, 0, ids, 4, 4));
  EXPECT_EQ(answer.header.op, Op::kAnswer);
  EXPECT_EQ(answer.header.staleness, 1u);
  EXPECT_EQ(answer.header.version, 0u);
  EXPECT_TRUE(Deliver(0, PushOf(0, 0, 1, ids, 4, 4))[0].empty());
  EXPECT_EQ(Weights(ids), (std::vector<float>{8, 8}));
  const auto sent = Deliver(1, PushOf(1, 0, 0, ids, 4, 4));
  EXPECT_EQ(sent[0].size(), 1u);
  EXPECT_EQ(sent[0][0].header.clock, 1u);
  EXPECT_EQ(sent[1].size(), 1u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{7, 7}));
}

TEST_F(RowsOfShardOnArrival, APushCountsByItsShareOfTheClock) {
  const std::vector<uint64_t> ids = IdsOf(0, 1);
  // One of two ranks: half of the rate.
  EXPECT_EQ(Send(0, PushOf(0, 0, 0, ids, 4, 4)).header.version, 1u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{7.5, 7.5}));
  EXPECT_TRUE(Deliver(0, PushOf(0, 0, 1, ids, 4, 4, 1))[0].empty());
  EXPECT_EQ(Weights(ids), (std::vector<float>{7, 7}));
  const auto sent = Deliver(1, PushOf(1, 0, 0, ids, 4, 4));
  EXPECT_EQ(sent[0].size(), 1u);
  EXPECT_EQ(sent[1].size(), 1u);
  EXPECT_EQ(Weights(ids), (std::vector<float>{6.5, 6.5}));
}

TEST(RowsOfShardInstall, StaleNodesWeighLessWithDamping) {
  const proto::JobRecord record = RecordWithRows("async { damping: INVERSE_STALENESS }");
  const absl::StatusOr<ShardPlan> plan = MakeShardPlan(record, ShardId(0));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->rows.damps);
  EXPECT_EQ(plan->slots(), 2u);
}

TEST(RowsOfShardInstall, AStalePushIsDividedByItsStaleness) {
  const proto::JobRecord record = RecordWithRows("async { damping: INVERSE_STALENESS }");
  const absl::StatusOr<ShardPlan> plan = MakeShardPlan(record, ShardId(0));
  const auto rows = *ShardRows::Create(plan->rows, 3);
  const std::vector<uint64_t> ids = IdsOf(0, 1);
  const auto staleness = [&](size_t node, const wire::Frame& push) {
    std::vector<RowsAnswer> due;
    EXPECT_EQ(rows->OnPush(0, node, push, &due).error, ErrorCode::kNone);
    return due.at(0).staleness;
  };
  const std::vector<float> ones = {1, 1};
  wire::Frame push = ControlFrame(record, Op::kPushPull, 0, 0, 0);
  push.header.sample_count = 1;
  push.header.element_count = 2;
  push.payload =
      wire::EncodeRows({{.table = 0, .rate = 1, .ids = ids, .values = ones.data()}}, {}, kColumns);
  for (; push.header.clock < 4; ++push.header.clock) {
    push.header.base_version = push.header.clock;
    EXPECT_EQ(staleness(0, push), 0u);
  }
  push.header.clock = push.header.base_version = 0;
  EXPECT_EQ(staleness(1, push), 4u);
  wire::Frame lookup = push;
  lookup.header.element_count = 0;
  lookup.payload = wire::EncodeRows({}, {{.table = 0, .ids = ids}}, kColumns);
  lookup.header.clock = 7;
  EXPECT_EQ(rows->Lookup(2, lookup)->floats()[0], 8.0f - 4.0f - 0.25f);
  // A node that has looked the rows up knows all updates until then.
  EXPECT_EQ(staleness(2, push), 0u);
  // Not so if an older one comes again.
  lookup.header.clock = 6;
  EXPECT_EQ(rows->Lookup(2, lookup)->floats()[0], 8.0f - 4.0f - 0.25f - 1.0f);
  push.header.clock = push.header.base_version = 4;
  staleness(0, push);
  push.header.clock = 5;
  push.header.base_version = 5;
  staleness(0, push);
  rows->Lookup(2, lookup).IgnoreError();
  push.header.clock = 1;
  push.header.base_version = 0;
  EXPECT_EQ(staleness(2, push), 3u);
}

// A shard's rows, of a job with a checkpoint every two clocks.
class RowsCutTest : public testing::Test {
 protected:
  explicit RowsCutTest(const std::string& mode = "sync {}") : record_(RecordWithRows(mode)) {
    record_.mutable_job()->mutable_checkpoint()->set_every_steps(2);
    plan_ = MakeShardPlan(record_, ShardId(0))->rows;
    plan_.piece_bytes = 64;  // some three rows
    rows_ = *ShardRows::Create(plan_, 2);
  }

  // Both nodes push a clock to all buckets: rows of "items", the same gradient to each.
  void PushClock(uint64_t clock, size_t ids = 10) {
    for (uint32_t bucket = 0; bucket < 4; ++bucket) {
      for (uint32_t node = 0; node < 2; ++node) Push(node, bucket, clock, ids);
    }
  }
  void Push(uint32_t node, uint32_t bucket, uint64_t clock, size_t count = 10) {
    const std::vector<uint64_t> ids = IdsOf(bucket, count);
    const std::vector<float> values(ids.size() * 2, 1.0f);
    wire::Frame frame = ControlFrame(record_, Op::kPushPull, node, bucket, clock);
    frame.header.key_space = wire::KeySpace::kRows;
    frame.header.sample_count = 2;
    frame.header.element_count = static_cast<uint32_t>(values.size());
    frame.payload = wire::EncodeRows(
        {{.table = 1, .rate = 1.0f, .ids = ids, .values = values.data()}}, {}, kColumns);
    std::vector<RowsAnswer> due;
    EXPECT_EQ(rows_->OnPush(bucket, node, frame, &due).error, ErrorCode::kNone);
  }
  // Takes pieces until there are no more, each of which is written at once.
  std::vector<RowsPiece> TakeAll() {
    std::vector<RowsPiece> all;
    for (std::vector<RowsPiece> some = rows_->cuts().Take(); !some.empty();
         some = rows_->cuts().Take()) {
      for (RowsPiece& piece : some) {
        all.push_back(std::move(piece));
        if (all.back().problem.empty()) rows_->cuts().LetGo();
      }
    }
    return all;
  }
  static size_t RowsIn(const std::vector<RowsPiece>& pieces,
                       absl::Span<const rows::TableSpec> tables) {
    size_t count = 0;
    for (const RowsPiece& piece : pieces) {
      for (const TableRows& rows : ImageOf(piece, tables).tables) count += rows.ids.size();
    }
    return count;
  }

  proto::JobRecord record_;
  RowsPlan plan_;
  std::unique_ptr<ShardRows> rows_;
};

TEST_F(RowsCutTest, ACheckpointHasEachRowAsItWasAtItsClock) {
  PushClock(0);
  EXPECT_TRUE(TakeAll().empty());
  PushClock(1);
  PushClock(2);  // changes all rows, of which two pieces are taken
  const std::vector<RowsPiece> pieces = TakeAll();
  EXPECT_GT(pieces.size(), 4u);
  EXPECT_EQ(RowsIn(pieces, rows_->tables()), 40u);
  uint32_t number = 0;
  for (const RowsPiece& piece : pieces) {
    EXPECT_EQ(piece.clock, 2u);
    EXPECT_EQ(piece.number, number++);
    EXPECT_EQ(piece.is_last, number == pieces.size());
    for (const TableRows& rows : ImageOf(piece, rows_->tables()).tables) {
      EXPECT_EQ(rows.table, 1u);
      // The mean of two nodes' gradients, of two samples each, in two clocks.
      for (const float weight : rows.weights) EXPECT_EQ(weight, 8.0f - 2 * 0.5f);
      for (const uint32_t clock : rows.clocks) EXPECT_EQ(clock, 1u);
    }
    for (const BucketImage& part : piece.parts) EXPECT_EQ(part.version, 2u);
  }
  EXPECT_EQ(rows_->cuts().bytes(), 0u);
}

TEST_F(RowsCutTest, ACheckpointThatIsDueBeforeTheLastIsGivenOutIsGivenUp) {
  for (uint64_t clock = 0; clock < 5; ++clock) PushClock(clock);
  std::vector<RowsPiece> pieces = rows_->cuts().Take();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].clock, 4u);
  EXPECT_EQ(pieces[2].problem,
            "the rows of the checkpoint of clock 2 are not written yet: the store is slower than "
            "steps are");
  EXPECT_GT(rows_->cuts().bytes(), 0u);
  rows_->cuts().LetGo();
  rows_->cuts().LetGo();
  for (RowsPiece& piece : TakeAll()) pieces.push_back(std::move(piece));
  pieces.erase(pieces.begin() + 2);
  EXPECT_TRUE(pieces.back().is_last);
  EXPECT_EQ(RowsIn(pieces, rows_->tables()), 40u);
  // And the one after it is made.
  PushClock(5);
  pieces = TakeAll();
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(pieces[0].clock, 6u);
  EXPECT_EQ(RowsIn(pieces, rows_->tables()), 40u);
}

TEST_F(RowsCutTest, ACheckpointWaitsForTheLastAsLongAsItsRowsStay) {
  for (uint64_t clock = 0; clock < 4; ++clock) PushClock(clock);
  std::vector<RowsPiece> pieces = TakeAll();
  const auto of_clock = [&](uint64_t clock) {
    std::vector<RowsPiece> some;
    for (const RowsPiece& piece : pieces) {
      EXPECT_EQ(piece.problem, "");
      if (piece.clock == clock) some.push_back(piece);
    }
    return some;
  };
  EXPECT_EQ(RowsIn(of_clock(2), rows_->tables()), 40u);
  EXPECT_EQ(RowsIn(of_clock(4), rows_->tables()), 40u);
  for (const RowsPiece& piece : of_clock(4)) {
    for (const TableRows& rows : ImageOf(piece, rows_->tables()).tables) {
      for (const float weight : rows.weights) EXPECT_EQ(weight, 8.0f - 4 * 0.5f);
    }
  }
  // So has that of a job's end.
  PushClock(4);
  PushClock(5);
  PushClock(6);
  PushClock(7);
  pieces = rows_->cuts().Take();
  while (std::optional<RowsPiece> piece = rows_->cuts().TakeRest()) {
    pieces.push_back(*std::move(piece));
  }
  EXPECT_EQ(RowsIn(of_clock(6), rows_->tables()), 40u);
  EXPECT_EQ(RowsIn(of_clock(8), rows_->tables()), 40u);
  EXPECT_TRUE(pieces.back().is_last);
}

TEST_F(RowsCutTest, RowsThatChangeTooFastCostTheCheckpointAndNotTheNext) {
  plan_.kept_bytes = 200;
  rows_ = *ShardRows::Create(plan_, 2);
  for (uint64_t clock = 0; clock < 3; ++clock) PushClock(clock);
  std::vector<RowsPiece> pieces = rows_->cuts().Take();
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].clock, 2u);
  EXPECT_EQ(pieces[2].problem,
            "0 MiB of rows have changed before they were written: the store is slower than steps "
            "are");
  rows_->cuts().LetGo();
  rows_->cuts().LetGo();
  EXPECT_EQ(rows_->cuts().bytes(), 0u);
  PushClock(3);
  EXPECT_EQ(RowsIn(TakeAll(), rows_->tables()), 40u);
}

class RowsCutOnArrivalTest : public RowsCutTest {
 protected:
  RowsCutOnArrivalTest() : RowsCutTest("async {}") {}
};

TEST_F(RowsCutOnArrivalTest, SaysWhichPushesItHasBeyondItsClock) {
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    for (uint64_t clock = 0; clock < 3; ++clock) Push(0, bucket, clock);
  }
  EXPECT_TRUE(TakeAll().empty());
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    for (uint64_t clock = 0; clock < 2; ++clock) Push(1, bucket, clock);
  }
  const std::vector<RowsPiece> pieces = TakeAll();
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(RowsIn(pieces, rows_->tables()), 40u);
  for (const RowsPiece& piece : pieces) {
    for (const BucketImage& part : piece.parts) {
      EXPECT_EQ(part.applied, (std::vector<uint64_t>{3, 2}));
      EXPECT_EQ(part.version, 5u);
    }
  }
}

// The slowest node ends, so that two checkpoints are due at once; then the other one does.
TEST_F(RowsCutOnArrivalTest, ANodeThatEndsLeavesNoCopyThatWaitsForever) {
  for (uint64_t clock = 0; clock < 5; ++clock) {
    for (uint32_t bucket = 0; bucket < 4; ++bucket) Push(0, bucket, clock);
  }
  for (uint32_t bucket = 0; bucket < 4; ++bucket) Push(1, bucket, 0);
  std::vector<RowsAnswer> due;
  rows_->OnRetire(1, &due);
  std::vector<RowsPiece> pieces = TakeAll();
  std::set<uint64_t> whole;
  for (const RowsPiece& piece : pieces) {
    if (piece.is_last) whole.insert(piece.clock);
    for (const BucketImage& part : piece.parts) {
      EXPECT_EQ(part.applied, (std::vector<uint64_t>{5, 5}));
    }
  }
  EXPECT_EQ(whole, (std::set<uint64_t>{4}));
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(pieces[0].clock, 2u);
  EXPECT_EQ(pieces[0].problem, "step 5 came at once, as a node has ended");
  for (uint32_t bucket = 0; bucket < 4; ++bucket) Push(0, bucket, 5);
  pieces = TakeAll();
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(pieces.back().clock, 6u);
  EXPECT_TRUE(pieces.back().is_last);
  rows_->OnRetire(0, &due);
  EXPECT_TRUE(TakeAll().empty());
}

TEST_F(RowsCutTest, WhatIsLeftOfACopyWhereAJobEndsIsGivenOut) {
  PushClock(0);
  PushClock(1);
  std::vector<RowsPiece> pieces = rows_->cuts().Take();
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_TRUE(rows_->cuts().has_rest());
  while (std::optional<RowsPiece> piece = rows_->cuts().TakeRest()) {
    pieces.push_back(*std::move(piece));
  }
  EXPECT_TRUE(pieces.back().is_last);
  EXPECT_EQ(RowsIn(pieces, rows_->tables()), 40u);
  EXPECT_FALSE(rows_->cuts().has_rest());
}

TEST_F(RowsCutTest, ARestoredShardHasTheRowsAndTheirClocks) {
  PushClock(0);
  PushClock(1);
  const std::vector<RowsPiece> pieces = TakeAll();
  auto other = *ShardRows::Create(plan_, 2);
  EXPECT_EQ(other->CheckRestored().message(), "the checkpoint has no rows of bucket 0");
  for (const RowsPiece& piece : pieces) {
    ASSERT_EQ(other->Restore(ImageOf(piece, rows_->tables())), absl::OkStatus());
  }
  EXPECT_EQ(other->CheckRestored(), absl::OkStatus());
  EXPECT_EQ(other->version(3), 2u);
  EXPECT_EQ(other->Received(3, 1), 2u);
  rows_ = std::move(other);
  PushClock(2);
  EXPECT_TRUE(TakeAll().empty());
  PushClock(3);
  const std::vector<RowsPiece> next = TakeAll();
  ASSERT_FALSE(next.empty());
  EXPECT_EQ(next[0].clock, 4u);
  for (const TableRows& rows : ImageOf(next[0], rows_->tables()).tables) {
    for (const float weight : rows.weights) EXPECT_EQ(weight, 8.0f - 4 * 0.5f);
    for (const uint32_t pushes : rows.pushes) EXPECT_EQ(pushes, 4u);
  }
}

TEST_F(RowsCutTest, RowsThatDoNotFitAreNamed) {
  PushClock(0);
  PushClock(1);
  const RowsImage good = ImageOf(TakeAll()[0], rows_->tables());
  const auto error = [&](auto change) {
    RowsImage image = good;
    change(image);
    RowsPlan plan = plan_;
    plan.tables[1].capacity = 1000;
    auto rows = *ShardRows::Create(plan, 2);
    return std::string(rows->Restore(image).message());
  };
  EXPECT_EQ(error([](RowsImage& image) { image.buckets = 8; }),
            "the checkpoint has 8 buckets of rows, the job 4");
  EXPECT_EQ(error([](RowsImage& image) { image.tables[0].table = 2; }),
            "the checkpoint has rows of table 2, the job 2 tables");
  EXPECT_EQ(error([](RowsImage& image) { image.tables[0].columns = 1; }),
            "table \"items\": the checkpoint has rows of 1 weights and 0 values of state, not 2 "
            "and 0");
  EXPECT_EQ(error([](RowsImage& image) { image.tables[0].ids[1] = image.tables[0].ids[0]; }),
            "table \"items\": the checkpoint has a row twice");
  const uint64_t other = IdsOf(3, 1)[0];
  EXPECT_EQ(error([&](RowsImage& image) { image.tables[0].ids[0] = other; }),
            absl::StrCat("table \"items\": the checkpoint has id ", other,
                         " among rows of other buckets than 3"));
}

TEST(RowsOfShardInstall, NamesWhatIsWrongWithARecord) {
  const auto error = [](auto change) {
    proto::JobRecord record = RecordWithRows();
    change(record);
    return std::string(MakeShardPlan(record, ShardId(0)).status().message());
  };
  using Record = proto::JobRecord;
  EXPECT_EQ(error([](Record& r) { r.mutable_placement()->add_shard_of_bucket(0); }),
            "placement.shard_of_bucket has 5 buckets, for 2 tables");
  EXPECT_EQ(error([](Record& r) { r.mutable_placement()->set_shard_of_bucket(3, 1); }),
            "placement: bucket 3 lies on shard 1 of 1");
  EXPECT_EQ(error([](Record& r) { r.mutable_layout()->clear_tables(); }),
            "placement.shard_of_bucket has 4 buckets, for 0 tables");
  EXPECT_EQ(error([](Record& r) { r.mutable_layout()->mutable_tables(1)->set_columns(0); }),
            "table \"items\": dim: 0 is not in 1 to 4096");
}

TEST(RowsOfShardInstall, AShardHasTheBucketsOfItsOwn) {
  const proto::JobRecord record = RecordWithRows("async {}", 2);
  const absl::StatusOr<ShardPlan> plan = MakeShardPlan(record, ShardId(1));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->rows.buckets, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(plan->rows.bucket_bits, 2u);
}

TEST(RowsOfShardInstall, ARowsOnlyCopyDoesNotMove) {
  ShardHarness shard;
  const proto::JobRecord record = RecordWithRows();
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  std::vector<ShardAction> actions;
  EXPECT_EQ(shard.core().FillNext(JobId(7), ShardId(0), 3, "tcp://127.0.0.1:1", &actions).message(),
            "job 7 shard 0 has rows, which are not copied");
}

}  // namespace
}  // namespace strata::server
