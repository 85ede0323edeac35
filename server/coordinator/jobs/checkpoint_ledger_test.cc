#include "server/coordinator/jobs/checkpoint_ledger.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

proto::JobRecord OnShards(std::vector<uint32_t> shard_of_chunk) {
  proto::JobRecord record;
  for (uint32_t shard : shard_of_chunk) record.mutable_placement()->add_shard_of_chunk(shard);
  return record;
}

proto::CheckpointPart Part(uint64_t clock, uint32_t shard, const std::string& error = "") {
  proto::CheckpointPart part;
  part.set_clock(clock);
  part.set_shard(shard);
  part.set_error(error);
  if (!error.empty()) return part;
  part.mutable_object()->set_name(absl::StrCat("clock-", clock, "/shard-", shard));
  part.mutable_object()->set_bytes(100);
  return part;
}

class LedgerTest : public testing::Test {
 protected:
  void Take(const proto::CheckpointPart& part) { ledger_.OnPart("server s1", part, &status_); }
  void Keep(uint64_t clock, const absl::Status& status = absl::OkStatus()) {
    ledger_.OnKept(clock, status, absl::FromUnixSeconds(7), &status_);
  }

  CheckpointLedger ledger_ = CheckpointLedger(OnShards({0, 2, 2, 0}));
  proto::CheckpointStatus status_;
};

TEST_F(LedgerTest, ACheckpointIsWholeOnceEachShardWithChunksHasWrittenItsPart) {
  Take(Part(10, 2));
  Take(Part(10, 2));
  Take(Part(10, 1));  // which holds no chunk
  EXPECT_FALSE(ledger_.TakeWhole());
  EXPECT_EQ(status_.writing_step(), 10);
  EXPECT_EQ(status_.objects_written(), 1);
  EXPECT_EQ(status_.objects(), 2);
  Take(Part(10, 0));
  const std::optional<CheckpointLedger::Whole> whole = ledger_.TakeWhole();
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->clock, 10);
  ASSERT_EQ(whole->objects.size(), 2);
  EXPECT_EQ(whole->objects[0].name(), "clock-10/shard-0");
  EXPECT_EQ(whole->objects[1].name(), "clock-10/shard-2");
  EXPECT_EQ(status_.complete(), 0);
  Keep(10);
  EXPECT_EQ(status_.complete(), 1);
  EXPECT_EQ(status_.newest_step(), 10);
  EXPECT_EQ(status_.newest_ms(), 7000);
  EXPECT_EQ(status_.newest_bytes(), 200);
  EXPECT_FALSE(status_.has_writing_step());
  Take(Part(10, 0));
  Take(Part(10, 2));
  EXPECT_FALSE(ledger_.TakeWhole());
}

TEST_F(LedgerTest, WhereRanksAloneHaveTheWeightsRank0sObjectAndTheRanksStatesAreWaitedFor) {
  proto::JobRecord record;
  record.mutable_job()->set_exchange(proto::Job::NCCL);
  record.mutable_job()->set_ranks(2);
  record.set_ranks_keep_state(true);
  ledger_ = CheckpointLedger(record);
  Take(Part(10, 0));
  EXPECT_EQ(status_.objects(), 3);
  for (const uint32_t rank : {0, 1}) {
    EXPECT_FALSE(ledger_.TakeWhole());
    proto::CheckpointPart part = Part(10, 0);
    part.set_rank(rank);
    Take(part);
  }
  EXPECT_TRUE(ledger_.TakeWhole());
}

TEST_F(LedgerTest, OneThatWillComeIsShownUntilItIsThereOrHasFailed) {
  ledger_.Expect(10, &status_);
  EXPECT_EQ(status_.writing_step(), 10);
  EXPECT_FALSE(ledger_.TakeWhole());
  for (const uint32_t shard : {0, 2}) Take(Part(10, shard));
  ASSERT_TRUE(ledger_.TakeWhole());
  ledger_.Expect(10, &status_);
  Keep(10);
  EXPECT_FALSE(status_.has_writing_step());
  ledger_.Expect(10, &status_);
  EXPECT_FALSE(status_.has_writing_step()) << "it is there";
  ledger_.Expect(20, &status_);
  Take(Part(20, 0, "the disk is full"));
  EXPECT_FALSE(status_.has_writing_step());
  ledger_.Expect(20, &status_);
  EXPECT_FALSE(status_.has_writing_step()) << "it has failed";
}

TEST_F(LedgerTest, ManifestsAreWrittenOneAfterTheOther) {
  for (uint64_t clock : {10, 20}) {
    Take(Part(clock, 0));
    Take(Part(clock, 2));
  }
  EXPECT_EQ(ledger_.TakeWhole()->clock, 10);
  EXPECT_FALSE(ledger_.TakeWhole());
  Take(Part(10, 0));
  Keep(20);  // which is not the one
  EXPECT_FALSE(ledger_.TakeWhole());
  Keep(10);
  EXPECT_EQ(ledger_.TakeWhole()->clock, 20);
}

TEST_F(LedgerTest, APartThatFailsFailsTheCheckpointAndTheNextOneClearsTheProblem) {
  Take(Part(10, 0));
  Take(Part(10, 2, "no space left"));
  EXPECT_EQ(status_.failed(), 1);
  EXPECT_EQ(status_.problem(), "step 10: server s1: no space left");
  Take(Part(10, 2));
  Take(Part(10, 0, "no space left"));
  EXPECT_FALSE(ledger_.TakeWhole());
  EXPECT_EQ(status_.failed(), 1);
  Take(Part(20, 0));
  Take(Part(20, 2));
  ASSERT_TRUE(ledger_.TakeWhole());
  EXPECT_NE(status_.problem(), "");
  Keep(20);
  EXPECT_EQ(status_.problem(), "");
  EXPECT_EQ(status_.complete(), 1);
  EXPECT_EQ(status_.failed(), 1);
}

TEST_F(LedgerTest, AManifestThatCannotBeWrittenFailsTheCheckpoint) {
  Take(Part(10, 0));
  Take(Part(10, 2));
  ASSERT_TRUE(ledger_.TakeWhole());
  Keep(10, absl::UnavailableError("stalled"));
  EXPECT_EQ(status_.problem(), "step 10: stalled");
  EXPECT_EQ(status_.complete(), 0);
  Take(Part(10, 0));
  Take(Part(10, 2));
  EXPECT_FALSE(ledger_.TakeWhole());
}

TEST_F(LedgerTest, WhatTheCoordinatorBeforeHasCompletedIsNotWholeOnceMore) {
  for (const uint64_t clock : {10, 20}) {
    for (const uint32_t shard : {0, 2}) Take(Part(clock, shard));
    ASSERT_TRUE(ledger_.TakeWhole());
    Keep(clock);
  }
  ledger_ = CheckpointLedger(OnShards({0, 2, 2, 0}));
  ledger_.TakeOver(status_);
  for (const uint64_t clock : {10, 20, 30}) Take(Part(clock, 0));
  Take(Part(10, 2, "no space left"));
  Take(Part(20, 2));
  EXPECT_FALSE(ledger_.TakeWhole());
  EXPECT_EQ(status_.writing_step(), 30);
  EXPECT_EQ(status_.failed(), 0);
  Take(Part(30, 2));
  ASSERT_TRUE(ledger_.TakeWhole());
  Keep(30);
  EXPECT_EQ(status_.complete(), 3);
  EXPECT_EQ(status_.newest_step(), 30);
}

TEST_F(LedgerTest, WhereNoneWasCompleteTheNextCoordinatorBeginsWithTheFirst) {
  status_.set_newest_step(20);  // ignored without a complete checkpoint
  ledger_.TakeOver(status_);
  for (const uint32_t shard : {0, 2}) Take(Part(10, shard));
  EXPECT_TRUE(ledger_.TakeWhole());
}

TEST_F(LedgerTest, OneThatIsPastIsNeitherCompleteNorFailed) {
  for (const uint32_t shard : {0, 2}) Take(Part(10, shard));
  ASSERT_TRUE(ledger_.TakeWhole());
  Keep(10, absl::OutOfRangeError("that of clock 20 is complete"));
  EXPECT_EQ(status_.complete(), 0);
  EXPECT_EQ(status_.failed(), 0);
  EXPECT_EQ(status_.problem(), "");
  EXPECT_FALSE(status_.has_writing_step());
  for (const uint32_t shard : {0, 2}) Take(Part(10, shard));
  EXPECT_FALSE(ledger_.TakeWhole());
  for (const uint32_t shard : {0, 2}) Take(Part(20, shard));
  EXPECT_EQ(ledger_.TakeWhole()->clock, 20);
}

TEST_F(LedgerTest, WhatIsMissingOfAnEarlierOneIsGivenUpWithALaterOne) {
  Take(Part(10, 0));
  Take(Part(20, 0));
  Take(Part(20, 2));
  EXPECT_EQ(ledger_.TakeWhole()->clock, 20);
  Keep(20);
  EXPECT_EQ(status_.failed(), 1);
  EXPECT_EQ(status_.problem(), "");
  Take(Part(10, 2));
  EXPECT_FALSE(ledger_.TakeWhole());
}

TEST(CheckpointLedger, AJobWithoutAnyTakesNone) {
  CheckpointLedger ledger;
  proto::CheckpointStatus status;
  ledger.OnPart("s1", Part(10, 0), &status);
  EXPECT_FALSE(ledger.TakeWhole());
}

TEST_F(LedgerTest, NodesAndRanksThatKeepStateHavePartsOfTheirOwn) {
  proto::JobRecord record = OnShards({0});
  record.mutable_job()->set_ranks(2);
  record.mutable_job()->mutable_push()->set_codec(proto::Encoding::INT8);
  record.mutable_view()->add_nodes()->set_node(0);
  record.mutable_view()->add_nodes()->set_node(1);
  record.set_ranks_keep_state(true);
  ledger_ = CheckpointLedger(record);
  const auto part = [](proto::CheckpointPart::OfCase of, uint32_t number, const char* name) {
    proto::CheckpointPart part;
    part.set_clock(10);
    part.mutable_object()->set_name(name);
    if (of == proto::CheckpointPart::kNode) part.set_node(number);
    if (of == proto::CheckpointPart::kRank) part.set_rank(number);
    if (of == proto::CheckpointPart::kShard) part.set_shard(number);
    return part;
  };
  Take(part(proto::CheckpointPart::kRank, 1, "rank 1"));
  Take(part(proto::CheckpointPart::kNode, 1, "node 1"));
  Take(part(proto::CheckpointPart::kShard, 0, "shard 0"));
  Take(part(proto::CheckpointPart::kShard, 1, "which holds no chunk"));
  Take(part(proto::CheckpointPart::kRank, 0, "rank 0"));
  EXPECT_FALSE(ledger_.TakeWhole());
  EXPECT_EQ(status_.objects_written(), 4);
  EXPECT_EQ(status_.objects(), 5);
  Take(part(proto::CheckpointPart::kNode, 0, "node 0"));
  const std::optional<CheckpointLedger::Whole> whole = ledger_.TakeWhole();
  ASSERT_TRUE(whole);
  std::vector<std::string> names;
  for (const proto::CheckpointObject& object : whole->objects) names.push_back(object.name());
  EXPECT_EQ(names, (std::vector<std::string>{"shard 0", "node 0", "node 1", "rank 0", "rank 1"}));
}

TEST_F(LedgerTest, WhatUsersSeeIsInSteps) {
  proto::JobRecord record = OnShards({0});
  record.mutable_job()->mutable_optimizer()->mutable_sgd();
  record.mutable_job()->mutable_consistency()->mutable_lazy()->set_local_steps(4);
  ledger_ = CheckpointLedger(record);
  Take(Part(3, 1));
  Take(Part(3, 0, "no space"));
  EXPECT_EQ(status_.problem(), "step 12: server s1: no space");
  Take(Part(6, 0));
  EXPECT_EQ(status_.writing_step(), 24);
  ASSERT_TRUE(ledger_.TakeWhole());
  Keep(6);
  EXPECT_EQ(status_.newest_step(), 24);
  ledger_ = CheckpointLedger(record);
  ledger_.TakeOver(status_);
  for (const uint64_t clock : {6, 9}) Take(Part(clock, 0));
  EXPECT_EQ(ledger_.TakeWhole()->clock, 9);
}

}  // namespace
}  // namespace strata::server
