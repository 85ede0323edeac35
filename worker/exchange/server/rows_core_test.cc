#include "worker/exchange/server/rows_core.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rows/row_key.h"

namespace strata::worker {
namespace {

using transport::ConnectionId;
using wire::Op;

constexpr uint64_t kSeed = 5;
const std::vector<uint32_t> kColumns = {1, 2};

CoreOptions Options() {
  CoreOptions options;
  proto::JobRecord& record = options.record;
  record.set_job_id(7);
  record.mutable_job()->mutable_rows()->set_bytes_per_step(1 << 30);
  proto::LogicalNode* const node = record.mutable_view()->add_nodes();
  node->set_ranks(1);
  for (uint32_t i = 0; i < kColumns.size(); ++i) {
    *record.mutable_layout()->add_tables() = rows::ToProto(
        {.name = "t" + std::to_string(i), .columns = kColumns[i], .capacity = 100, .seed = kSeed});
  }
  proto::Placement& placement = *record.mutable_placement();
  placement.add_shard_endpoints("tcp://s0:1");
  placement.add_shard_endpoints("tcp://s1:1");
  for (const uint32_t shard : {0, 1, 1, 1}) placement.add_shard_of_bucket(shard);
  return options;
}

uint32_t BucketOf(uint64_t id) {
  return static_cast<uint32_t>(rows::HighBits(rows::HashOf(kSeed, id), 2));
}

class RowsCoreTest : public testing::Test {
 protected:
  void SetUp() override {
    core_ = *RowsCore::Create(Options());
    Do(LinkEvent::Start());
    for (const WireAction& action : Take()) {
      ASSERT_EQ(action.kind, WireAction::Kind::kConnect);
      const ConnectionId connection(action.link.value() + 1);
      addresses_.push_back(core_->address(action.link));
      Do(LinkEvent::Connected(action.link, connection));
    }
    for (const WireAction& hello : Take()) {
      wire::Hello said;
      ASSERT_TRUE(
          wire::DecodeHello({hello.frame.payload.data(), hello.frame.payload.size()}, &said).ok());
      EXPECT_EQ(said.connection, 1u);  // behind that of chunks
      wire::Frame ok;
      ok.header.op = Op::kHelloOk;
      Do(LinkEvent::Frame(hello.connection, ok));
    }
    Take();
  }

  void Do(const LinkEvent& event) {
    const absl::Status status = core_->OnLinkEvent(event, now_, &actions_);
    if (status_.ok()) status_ = status;
  }
  std::vector<WireAction> Take() { return std::exchange(actions_.wire, {}); }
  // Frames that were sent, by bucket.
  std::map<uint32_t, WireAction> Sent() {
    std::map<uint32_t, WireAction> sent;
    for (WireAction& action : Take()) {
      if (action.kind == WireAction::Kind::kSend) sent[action.frame.header.chunk] = action;
    }
    return sent;
  }
  void Answer(const WireAction& asked, Op op, const std::vector<float>& values = {},
              uint32_t refused = 0) {
    wire::Frame answer;
    answer.header = asked.frame.header;
    answer.header.op = op;
    answer.header.version = 9;
    answer.header.sample_count = refused;
    answer.header.element_count = static_cast<uint32_t>(values.size());
    answer.payload = Bytes(nullptr, reinterpret_cast<const std::byte*>(values.data()),
                           values.size() * sizeof(float));
    Do(LinkEvent::Frame(asked.connection, answer));
  }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<RowsCore> core_;
  CoreActions actions_;
  absl::Status status_;
  std::vector<std::string> addresses_;
};

TEST_F(RowsCoreTest, EachBucketGetsItsRowsOfAStepOrAnEmptyFrame) {
  EXPECT_EQ(addresses_, (std::vector<std::string>{"tcp://s0:1", "tcp://s1:1"}));
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5};
  const std::vector<float> sums = {1, 10, 2, 20, 3, 30, 4, 40, 5, 50};
  ASSERT_TRUE(core_
                  ->Push({{.table = 1, .rate = 0.5f, .ids = ids, .values = sums.data()}}, {},
                         /*samples=*/6, now_, &actions_)
                  .ok());
  EXPECT_TRUE(core_->is_pushing());
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 4u);
  std::map<uint64_t, std::vector<float>> pushed;
  for (const auto& [bucket, action] : sent) {
    const wire::Header& header = action.frame.header;
    EXPECT_EQ(action.connection, ConnectionId(bucket == 0 ? 1 : 2));
    EXPECT_EQ(header.clock, 0u);
    EXPECT_EQ(header.sample_count, 6u);
    if ((header.flags & wire::kFlagEmpty) != 0) continue;
    const auto rows =
        wire::DecodedRows::Decode(action.frame.payload, header.element_count, kColumns);
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->pushed().size(), 1u);
    EXPECT_EQ(rows->pushed()[0].rate, 0.5f);
    for (size_t i = 0; i < rows->pushed()[0].ids.size(); ++i) {
      const uint64_t id = rows->pushed()[0].ids[i];
      EXPECT_EQ(BucketOf(id), bucket);
      const float* const values = rows->pushed()[0].values + 2 * i;
      pushed[id] = {values[0], values[1]};
    }
  }
  EXPECT_EQ(pushed.size(), 5u);
  for (const auto& [id, values] : pushed) {
    EXPECT_EQ(values, (std::vector<float>{static_cast<float>(id), 10.0f * id}));
  }
  for (const auto& [bucket, action] : sent) Answer(action, Op::kAnswer, {}, bucket);
  EXPECT_FALSE(core_->is_pushing());
  EXPECT_EQ(core_->TakeRefused(), 6u);
  ASSERT_TRUE(core_->Push({}, {}, 6, now_, &actions_).ok());
  for (const auto& [bucket, action] : Sent()) {
    EXPECT_EQ(action.frame.header.clock, 1u);
    EXPECT_EQ(action.frame.header.base_version, 9u);
    EXPECT_EQ(action.frame.header.flags, wire::kFlagEmpty);
  }
}

TEST_F(RowsCoreTest, RowsThatAPushWantsAreThereForTheLookupsAfterIt) {
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(core_->Push({}, {{.table = 1, .ids = ids}}, 1, now_, &actions_).ok());
  core_->LookUp(0, 1, {2, 5}, /*of_step=*/true, now_, &actions_);  // waits for the answers
  for (const auto& [bucket, action] : Sent()) {
    std::vector<float> values;
    for (const uint64_t id : ids) {
      if (BucketOf(id) != bucket) continue;
      values.push_back(static_cast<float>(id));
      values.push_back(10.0f * id);
    }
    EXPECT_EQ(action.frame.header.flags, values.empty() ? wire::kFlagEmpty : 0);
    Answer(action, Op::kAnswer, values);
  }
  ASSERT_TRUE(status_.ok()) << status_;
  std::vector<RowsCore::Found> found = core_->TakeFound();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].is_last);
  const float* const weights = found[0].weights.floats();
  EXPECT_EQ(std::vector<float>(weights, weights + 4), (std::vector<float>{2, 20, 5, 50}));
  EXPECT_EQ(core_->prefetched(), 2u);
  // Others are asked for, and so is all after the next push.
  core_->LookUp(0, 1, {2, 7}, /*of_step=*/true, now_, &actions_);
  EXPECT_FALSE(Sent().empty());
  EXPECT_TRUE(core_->TakeFound().empty());
  ASSERT_TRUE(core_->Push({}, {}, 1, now_, &actions_).ok());
  for (const auto& [bucket, action] : Sent()) Answer(action, Op::kAnswer);
  core_->LookUp(1, 1, {2}, /*of_step=*/true, now_, &actions_);
  EXPECT_FALSE(Sent().empty());
}

TEST_F(RowsCoreTest, AnAnswerWithOtherRowsThanWantedEndsTheJob) {
  ASSERT_TRUE(core_->Push({}, {{.table = 0, .ids = {{1}}}}, 1, now_, &actions_).ok());
  const auto sent = Sent();
  Answer(sent.at(BucketOf(1)), Op::kAnswer, {1, 2});
  EXPECT_EQ(status_.message().substr(0, 16), "node 0: server t");
}

TEST_F(RowsCoreTest, AStepWithMoreBytesThanTheJobAllowsIsRefused) {
  CoreOptions options = Options();
  options.record.mutable_job()->mutable_rows()->set_bytes_per_step(1024);
  core_ = *RowsCore::Create(options);
  // 16 bytes each, of two columns.
  std::vector<uint64_t> ids(65);
  for (uint64_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const std::vector<float> sums(2 * ids.size());
  const absl::Status refused = core_->Push(
      {{.table = 1, .rate = 1, .ids = ids, .values = sums.data()}}, {}, 1, now_, &actions_);
  EXPECT_EQ(refused.message(),
            "node 0: 1040 bytes of rows in a step, more than rows.bytes_per_step, 1024");
  EXPECT_FALSE(core_->is_pushing());
  ids.pop_back();
  EXPECT_TRUE(core_
                  ->Push({{.table = 1, .rate = 1, .ids = ids, .values = sums.data()}}, {}, 1, now_,
                         &actions_)
                  .ok());
}

TEST_F(RowsCoreTest, AShardWhoseLinkForRowsIsDownIsShownAsNotConnected) {
  proto::NodeActivity activity;
  activity.add_shards()->set_address("tcp://s1:1");
  activity.mutable_shards(0)->set_connected(true);
  proto::NodeActivity up = activity;
  core_->AddActivity(now_, &up);
  ASSERT_EQ(up.shards_size(), 2);  // one has rows alone
  EXPECT_TRUE(up.shards(0).connected());
  EXPECT_TRUE(up.shards(1).connected());
  EXPECT_EQ(up.shards(1).address(), "tcp://s0:1");
  Do(LinkEvent::Lost(ConnectionId(2), absl::UnavailableError("it is gone")));
  now_ += absl::Seconds(3);
  core_->AddActivity(now_, &activity);
  EXPECT_FALSE(activity.shards(0).connected());
  EXPECT_EQ(activity.shards(0).error(), "it is gone");
  EXPECT_EQ(activity.shards(0).oldest_ms(), 3000);
  EXPECT_TRUE(activity.shards(1).connected());
}

TEST_F(RowsCoreTest, RowsComeBackToTheirPlacesAndLookupsAreMatchedByTheirNumber) {
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  core_->LookUp(0, 1, ids, /*of_step=*/true, now_, &actions_);
  const std::vector<WireAction> first = Take();
  core_->LookUp(1, 1, ids, /*of_step=*/true, now_, &actions_);
  const std::vector<WireAction> second = Take();
  EXPECT_EQ(first.size(), 2u);  // one frame to each shard
  std::vector<std::vector<float>> found(2, std::vector<float>(16));
  std::vector<int> last(2);
  const auto answer = [&](const WireAction& action) {
    const auto rows = wire::DecodedRows::Decode(action.frame.payload, 0, kColumns);
    std::vector<float> values;
    for (const uint64_t id : rows->wanted()[0].ids) {
      values.push_back(static_cast<float>(id));
      values.push_back(-static_cast<float>(id));
    }
    Answer(action, Op::kRows, values);
    Answer(action, Op::kRows, values);  // a repetition
    for (const RowsCore::Found& some : core_->TakeFound()) {
      for (size_t i = 0; i < some.places.size(); ++i) {
        found[some.request][2 * some.places[i]] = some.weights.floats()[2 * i];
        found[some.request][2 * some.places[i] + 1] = some.weights.floats()[2 * i + 1];
      }
      last[some.request] += some.is_last ? 1 : 0;
    }
  };
  for (const WireAction& action : second) answer(action);
  EXPECT_EQ(last, (std::vector<int>{0, 1}));
  for (const WireAction& action : first) answer(action);
  EXPECT_EQ(last, (std::vector<int>{1, 1}));
  for (uint64_t i = 0; i < 8; ++i) {
    for (const std::vector<float>& rows : found) {
      EXPECT_EQ(rows[2 * i], static_cast<float>(ids[i]));
      EXPECT_EQ(rows[2 * i + 1], -static_cast<float>(ids[i]));
    }
  }
  core_->LookUp(0, 0, {}, /*of_step=*/true, now_, &actions_);
  EXPECT_TRUE(Sent().empty());
  EXPECT_TRUE(core_->TakeFound().at(0).is_last);
  EXPECT_TRUE(status_.ok());
}

TEST_F(RowsCoreTest, ARetryIsOfTheLookupOrOfThePushThatItNames) {
  uint64_t id = 0;
  while (BucketOf(id) != 0) ++id;
  core_->LookUp(0, 0, {id}, /*of_step=*/true, now_, &actions_);
  const WireAction lookup = Sent()[0];
  ASSERT_TRUE(core_->Push({}, {}, 1, now_, &actions_).ok());
  const WireAction push = Sent()[0];
  for (const WireAction& asked : {lookup, push}) {
    Answer(asked, Op::kRetry);
    now_ += absl::Milliseconds(60);
    Do(LinkEvent::Time());
    const auto again = Sent();
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again.at(0).frame.header.op, asked.frame.header.op);
    EXPECT_EQ(again.at(0).frame.header.clock, asked.frame.header.clock);
  }
}

// Also where a full queue has put off part of the push.
TEST_F(RowsCoreTest, ALookupWaitsForTheAnswersToThePushBefore) {
  ASSERT_TRUE(core_->Push({}, {}, 1, now_, &actions_).ok());
  const auto push = Sent();
  core_->LookUp(0, 0, {1}, /*of_step=*/true, now_, &actions_);
  EXPECT_TRUE(Sent().empty());
  for (const auto& [bucket, action] : push) {
    EXPECT_TRUE(Sent().empty());
    Answer(action, Op::kAnswer);
  }
  ASSERT_EQ(actions_.wire.size(), 1u);
  EXPECT_EQ(actions_.wire[0].frame.header.op, Op::kLookup);
}

TEST_F(RowsCoreTest, AfterTheLastPushShardsLearnThatNoneFollows) {
  core_->Finish(now_, &actions_);
  std::vector<WireAction> retiring = Take();
  ASSERT_EQ(retiring.size(), 2u);
  Answer(retiring[0], Op::kRetireOk);
  EXPECT_FALSE(core_->is_finished());
  Answer(retiring[1], Op::kRetireOk);
  EXPECT_TRUE(core_->is_finished());
  EXPECT_EQ(Take().at(0).kind, WireAction::Kind::kClose);
}

TEST_F(RowsCoreTest, WhatGoesWrongNamesNodeBucketAndServer) {
  core_->LookUp(0, 0, {1, 2, 3, 4}, /*of_step=*/true, now_, &actions_);
  const auto sent = Sent();
  Answer(sent.begin()->second, Op::kRows, {1, 2, 3, 4, 5});
  EXPECT_EQ(status_.message().substr(0, 16), "node 0: server t");
  const std::vector<uint64_t> id = {1};
  std::vector<uint64_t> ids;
  for (uint64_t next = 0; ids.size() < (4u << 20) / 2 + 1; ++next) {
    if (BucketOf(next) == 3) ids.push_back(next);
  }
  const std::vector<float> sums(ids.size() * 2);
  EXPECT_EQ(
      core_->Push({{.table = 1, .ids = ids, .values = sums.data()}}, {}, 1, now_, &actions_)
          .message(),
      "node 0: bucket 3: 16777224 bytes of rows in a step, more than a message of 16 MiB holds: "
      "the job needs more rows.buckets than 4");
}

// The ids take what the values leave.
TEST_F(RowsCoreTest, IdsCountWhereAMessageIsFull) {
  std::vector<uint64_t> ids;
  for (uint64_t next = 0; ids.size() < (4u << 20) / 2 - 100; ++next) {
    if (BucketOf(next) == 3) ids.push_back(next);
  }
  const std::vector<float> sums(ids.size() * 2);
  const absl::Status status =
      core_->Push({{.table = 1, .ids = ids, .values = sums.data()}}, {}, 1, now_, &actions_);
  EXPECT_NE(status.message().find("more than a message of 16 MiB holds"), std::string::npos);
}

TEST(RowsCore, RefusesPlacementsThatDoNotFit) {
  CoreOptions options = Options();
  options.record.mutable_placement()->add_shard_of_bucket(0);
  EXPECT_EQ(RowsCore::Create(options).status().message(),
            "placement.shard_of_bucket has 5 buckets, for 2 tables");
  options = Options();
  options.record.mutable_placement()->set_shard_of_bucket(1, 2);
  EXPECT_EQ(RowsCore::Create(options).status().message(),
            "placement.shard_of_bucket names shard 2 of 2");
}

}  // namespace
}  // namespace strata::worker
