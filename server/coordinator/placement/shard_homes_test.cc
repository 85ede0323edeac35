#include "server/coordinator/placement/shard_homes.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsEmpty;
using ::testing::Pair;
using testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Shard i is on server si; its backup is on the next of three.
struct ShardHomesJob {
  proto::JobRecord record;
  proto::JobStatus status;
};

ShardHomesJob ThreeShards() {
  ShardHomesJob job;
  job.record.set_job_id(5);
  job.record.set_attempt(2);
  job.record.mutable_job()->set_replicas(1);
  proto::Placement* placement = job.record.mutable_placement();
  placement->set_generation(1);
  for (int i = 0; i < 3; ++i) {
    const std::string next = std::to_string((i + 1) % 3);
    placement->add_shard_endpoints("tcp://h" + std::to_string(i) + ":1");
    placement->add_backup_endpoints("tcp://h" + next + ":2");
    placement->add_shard_generations(1);
    proto::JobShardStatus* shard = job.status.add_shards();
    shard->set_daemon("s" + std::to_string(i));
    shard->set_chunks(10);
    shard->set_backup("s" + next);
    shard->set_backup_shard(7);
  }
  return job;
}

TEST(ShardHomes, ALostServersShardsGoOnAtTheirOtherCopies) {
  ShardHomesJob job = ThreeShards();
  const ServerLoss loss = TakeFrom("s1", &job.record, &job.status);
  EXPECT_THAT(loss.moved, ElementsAre(ShardId(0), ShardId(1)));
  EXPECT_THAT(loss.lost, IsEmpty());
  const proto::Placement& placement = job.record.placement();
  EXPECT_THAT(placement.shard_endpoints(), ElementsAre("tcp://h0:1", "tcp://h2:2", "tcp://h2:1"));
  EXPECT_THAT(placement.backup_endpoints(), ElementsAre("", "", "tcp://h0:2"));
  EXPECT_THAT(placement.shard_generations(), ElementsAre(2, 2, 1));
  EXPECT_EQ(job.status.shards(1).daemon(), "s2");
  EXPECT_EQ(job.status.shards(1).shard(), 7u);
  EXPECT_EQ(job.status.shards(1).backup(), "");
  EXPECT_EQ(Unprotected(job.record, job.status).size(), 2u);
  EXPECT_THAT(MovedShards(job.record), ElementsAre(ShardId(0), ShardId(1)));
}

TEST(ShardHomes, TheSecondLossOfAShardIsItsLast) {
  ShardHomesJob job = ThreeShards();
  TakeFrom("s1", &job.record, &job.status);
  const ServerLoss loss = TakeFrom("s2", &job.record, &job.status);
  EXPECT_THAT(loss.lost, ElementsAre(ShardId(1)));
  EXPECT_THAT(loss.moved, ElementsAre(ShardId(2)));
}

TEST(ShardHomes, AServerThatHoldsNothingTakesNothing) {
  ShardHomesJob job = ThreeShards();
  const ServerLoss loss = TakeFrom("s9", &job.record, &job.status);
  EXPECT_THAT(loss.moved, IsEmpty());
  EXPECT_THAT(loss.lost, IsEmpty());
  EXPECT_EQ(Unprotected(job.record, job.status).size(), 0u);
}

TEST(ShardHomes, ShardsWithoutAChunkAreNoLoss) {
  ShardHomesJob job = ThreeShards();
  job.status.mutable_shards(1)->set_chunks(0);
  job.status.mutable_shards(1)->clear_backup();
  EXPECT_THAT(TakeFrom("s1", &job.record, &job.status).lost, IsEmpty());
  EXPECT_EQ(Unprotected(job.record, job.status).size(), 1u);
}

TEST(ShardHomes, ABackupIsDroppedByTheWordOfItsPrimaryOfNow) {
  ShardHomesJob job = ThreeShards();
  EXPECT_THAT(DropBackup("s0", ShardId(1), 1, &job.record, &job.status), IsEmpty())
      << "not its primary";
  EXPECT_THAT(DropBackup("s1", ShardId(1), 2, &job.record, &job.status), IsEmpty())
      << "of another generation";
  EXPECT_THAT(DropBackup("s1", ShardId(9), 1, &job.record, &job.status), IsEmpty())
      << "no such shard";
  EXPECT_THAT(DropBackup("s1", ShardId(1), 1, &job.record, &job.status), SizeIs(1));
  EXPECT_THAT(DropBackup("s1", ShardId(1), 2, &job.record, &job.status), IsEmpty())
      << "there is none any more";
  EXPECT_EQ(job.status.shards(1).daemon(), "s1");
  EXPECT_EQ(job.record.placement().shard_endpoints(1), "tcp://h1:1");
  EXPECT_EQ(job.record.placement().shard_generations(1), 2u);
}

TEST(ShardHomes, WhatIsToldNamesTheAttempt) {
  ShardHomesJob job = ThreeShards();
  TakeFrom("s0", &job.record, &job.status);
  const proto::MoveShard move = PlaceOf(job.record, job.status, ShardId(0));
  EXPECT_EQ(move.job_id(), 5u);
  EXPECT_EQ(move.attempt(), 2u);
  EXPECT_EQ(move.generation(), 2u);
  EXPECT_EQ(move.endpoint(), "tcp://h1:2");
  EXPECT_EQ(move.backup_endpoint(), "");
  EXPECT_FALSE(move.backup_is_whole());
}

TEST(ShardHomes, ANewBackupIsPartialUntilItsPrimarySaysThatItIsWhole) {
  ShardHomesJob job = ThreeShards();
  TakeFrom("s1", &job.record, &job.status);
  ASSERT_THAT(Unprotected(job.record, job.status), ElementsAre(ShardId(0), ShardId(1)));
  AddBackup(ShardId(1), {.daemon = "s9", .address = "h9", .ports = {7, 8}}, 1, &job.record,
            &job.status);
  EXPECT_THAT(Unprotected(job.record, job.status), ElementsAre(ShardId(0), ShardId(1)));
  proto::MoveShard move = PlaceOf(job.record, job.status, ShardId(1));
  EXPECT_EQ(move.generation(), 3u);
  EXPECT_EQ(move.endpoint(), "tcp://h2:2");
  EXPECT_EQ(move.backup_endpoint(), "tcp://h9:8");
  EXPECT_FALSE(move.backup_is_whole());
  EXPECT_FALSE(CompleteBackup("s9", ShardId(1), 3, job.record, &job.status)) << "not its primary";
  EXPECT_FALSE(CompleteBackup("s2", ShardId(1), 2, job.record, &job.status)) << "of before";
  EXPECT_FALSE(CompleteBackup("s2", ShardId(9), 3, job.record, &job.status)) << "no such shard";
  EXPECT_TRUE(CompleteBackup("s2", ShardId(1), 3, job.record, &job.status));
  EXPECT_FALSE(CompleteBackup("s2", ShardId(1), 3, job.record, &job.status)) << "no news";
  EXPECT_TRUE(PlaceOf(job.record, job.status, ShardId(1)).backup_is_whole());
  EXPECT_THAT(Unprotected(job.record, job.status), ElementsAre(ShardId(0)));
  EXPECT_TRUE(HoldsAny("s9", job.status));
  EXPECT_FALSE(HoldsAny("s1", job.status));
}

TEST(ShardHomes, APartialBackupTakesNothingOver) {
  ShardHomesJob job = ThreeShards();
  TakeFrom("s1", &job.record, &job.status);
  AddBackup(ShardId(1), {.daemon = "s9", .address = "h9", .ports = {7}}, 0, &job.record,
            &job.status);
  ShardHomesJob without = job;
  const ServerLoss loss = TakeFrom("s2", &without.record, &without.status);
  EXPECT_THAT(loss.lost, ElementsAre(ShardId(1)));
  // Losing the partial backup itself loses nothing.
  const ServerLoss own = TakeFrom("s9", &job.record, &job.status);
  EXPECT_THAT(own.moved, ElementsAre(ShardId(1)));
  EXPECT_THAT(own.lost, IsEmpty());
  EXPECT_FALSE(job.status.shards(1).backup_is_partial());
  EXPECT_EQ(PlaceOf(job.record, job.status, ShardId(1)).generation(), 4u);
}

ServerShards ShardHomesServer(const std::string& name) {
  return {.daemon = name, .address = "h-" + name, .ports = {1, 2}};
}

TEST(ShardHomes, AThirdCopyTakesThePlaceOfThePrimaryOnceItIsWhole) {
  ShardHomesJob job = ThreeShards();
  AddNext(ShardId(0), ShardHomesServer("s9"), 1, /*replaces_primary=*/true, &job.record,
          &job.status);
  proto::JobShardStatus& shard = *job.status.mutable_shards(0);
  EXPECT_EQ(FillerOf(shard), "s1");
  EXPECT_EQ(shard.next_generation(), 2u);
  EXPECT_EQ(PlaceOf(job.record, job.status, ShardId(0)).generation(), 1u) << "all is as it was";
  EXPECT_TRUE(HoldsAny("s9", job.status));
  const DroppedCopy left = TakeNext(ShardId(0), &job.record, &job.status);
  EXPECT_EQ(left.server, "s0");
  EXPECT_EQ(left.generation, 2u);
  const proto::MoveShard move = PlaceOf(job.record, job.status, ShardId(0));
  EXPECT_EQ(move.endpoint(), "tcp://h1:2");
  EXPECT_EQ(move.backup_endpoint(), "tcp://h-s9:2");
  EXPECT_EQ(move.generation(), 2u);
  EXPECT_TRUE(move.backup_is_whole());
  EXPECT_EQ(shard.daemon(), "s1");
  EXPECT_EQ(shard.shard(), 7u);
  EXPECT_EQ(shard.backup(), "s9");
  EXPECT_EQ(shard.next_backup(), "");
}

TEST(ShardHomes, AThirdCopyTakesThePlaceOfTheBackup) {
  ShardHomesJob job = ThreeShards();
  AddNext(ShardId(0), ShardHomesServer("s9"), 0, /*replaces_primary=*/false, &job.record,
          &job.status);
  EXPECT_EQ(FillerOf(job.status.shards(0)), "s0");
  EXPECT_EQ(TakeNext(ShardId(0), &job.record, &job.status).server, "s1");
  EXPECT_EQ(PlaceOf(job.record, job.status, ShardId(0)).endpoint(), "tcp://h0:1");
  EXPECT_EQ(job.status.shards(0).backup(), "s9");
}

TEST(ShardHomes, NoGenerationIsGivenOutTwice) {
  ShardHomesJob job = ThreeShards();
  AddNext(ShardId(0), ShardHomesServer("s9"), 0, true, &job.record, &job.status);
  EXPECT_EQ(DroppedBelow(ShardId(0), job.record, job.status), 2u) << "that one is not dropped";
  EXPECT_EQ(DropNext(ShardId(0), &job.status).generation, 3u) << "above its own";
  EXPECT_EQ(DroppedBelow(ShardId(0), job.record, job.status), 3u);
  AddNext(ShardId(0), ShardHomesServer("s9"), 0, true, &job.record, &job.status);
  EXPECT_EQ(job.status.shards(0).next_generation(), 3u);
  const ServerLoss loss = TakeFrom("s0", &job.record, &job.status);
  EXPECT_EQ(PlaceOf(job.record, job.status, ShardId(0)).generation(), 4u);
  ASSERT_THAT(loss.dropped, SizeIs(1));
  EXPECT_EQ(loss.dropped[0].server, "s9");
  EXPECT_EQ(loss.dropped[0].generation, 4u);
}

TEST(ShardHomes, AnOnlyCopyMovesByABackupForAWhile) {
  ShardHomesJob job = ThreeShards();
  job.record.mutable_job()->clear_replicas();
  job.record.mutable_placement()->clear_backup_endpoints();
  job.record.mutable_placement()->clear_shard_generations();
  for (auto& shard : *job.status.mutable_shards()) shard.clear_backup();
  AddBackup(ShardId(1), ShardHomesServer("s9"), 0, &job.record, &job.status);
  EXPECT_THAT(job.record.placement().shard_generations(), ElementsAre(1, 2, 1));
  ASSERT_TRUE(CompleteBackup("s1", ShardId(1), 2, job.record, &job.status));
  const DroppedCopy left = PromoteBackup(ShardId(1), &job.record, &job.status);
  EXPECT_EQ(left.server, "s1");
  EXPECT_EQ(left.generation, 3u);
  EXPECT_THAT(job.record.placement().shard_endpoints(),
              ElementsAre("tcp://h0:1", "tcp://h-s9:1", "tcp://h2:1"));
  EXPECT_THAT(job.record.placement().backup_endpoints(), ElementsAre("", "", ""));
  EXPECT_EQ(job.status.shards(1).daemon(), "s9");
}

enum class Backup { kNone, kPartial, kWhole };

proto::JobShardStatus Shard(Backup backup, const std::string& next = "",
                            bool replaces_primary = false) {
  proto::JobShardStatus shard;
  shard.set_chunks(1);
  shard.set_daemon("s1");
  if (backup != Backup::kNone) shard.set_backup("s2");
  shard.set_backup_is_partial(backup == Backup::kPartial);
  shard.set_next_backup(next);
  shard.set_replaces_primary(replaces_primary);
  return shard;
}

ShardStep Step(const proto::JobShardStatus& shard, uint32_t replicas,
               const std::set<std::string>& leave) {
  return NextStep(shard, replicas,
                  [&](const std::string& server) { return leave.contains(server); });
}

TEST(ShardMoves, AnOnlyCopyLeavesByASecondOneThatTakesOver) {
  EXPECT_EQ(Step(Shard(Backup::kNone), 0, {}), ShardStep::kNone);
  EXPECT_EQ(Step(Shard(Backup::kNone), 0, {"s1"}), ShardStep::kAddBackup);
  EXPECT_EQ(Step(Shard(Backup::kPartial), 0, {"s1"}), ShardStep::kNone);
  EXPECT_EQ(Step(Shard(Backup::kWhole), 0, {"s1"}), ShardStep::kPromote);
  EXPECT_EQ(Step(Shard(Backup::kPartial), 0, {}), ShardStep::kDropBackup) << "it is to stay";
  EXPECT_EQ(Step(Shard(Backup::kWhole), 0, {"s1", "s2"}), ShardStep::kDropBackup);
}

TEST(ShardMoves, OfTwoCopiesTheNextOneIsFilledFirst) {
  EXPECT_EQ(Step(Shard(Backup::kWhole), 1, {}), ShardStep::kNone);
  EXPECT_EQ(Step(Shard(Backup::kWhole), 1, {"s1"}), ShardStep::kReplacePrimary);
  EXPECT_EQ(Step(Shard(Backup::kWhole), 1, {"s2"}), ShardStep::kReplaceBackup);
  EXPECT_EQ(Step(Shard(Backup::kWhole), 1, {"s1", "s2"}), ShardStep::kReplaceBackup);
  EXPECT_EQ(Step(Shard(Backup::kPartial), 1, {"s1"}), ShardStep::kNone)
      << "it protects nothing yet";
  EXPECT_EQ(Step(Shard(Backup::kPartial), 1, {"s2"}), ShardStep::kDropBackup);
  EXPECT_EQ(Step(Shard(Backup::kNone), 1, {"s1"}), ShardStep::kNone) << "it gets one anyway";
}

TEST(ShardMoves, WhatIsUnderWayGoesOnAsLongAsItIsWanted) {
  EXPECT_EQ(Step(Shard(Backup::kWhole, "s3", true), 1, {"s1"}), ShardStep::kNone);
  EXPECT_EQ(Step(Shard(Backup::kWhole, "s3", true), 1, {}), ShardStep::kDropNext);
  EXPECT_EQ(Step(Shard(Backup::kWhole, "s3", true), 1, {"s2"}), ShardStep::kDropNext);
  EXPECT_EQ(Step(Shard(Backup::kWhole, "s3", false), 1, {"s2"}), ShardStep::kNone);
  EXPECT_EQ(Step(Shard(Backup::kWhole, "s3", false), 1, {"s2", "s3"}), ShardStep::kDropNext);
}

TEST(ShardMoves, FillsCountAtBothEnds) {
  proto::JobStatus status;
  *status.add_shards() = Shard(Backup::kWhole);
  FillsOfServers fills;
  CountFills(status, &fills);
  EXPECT_THAT(fills, IsEmpty());
  *status.add_shards() = Shard(Backup::kPartial);
  *status.add_shards() = Shard(Backup::kWhole, "s3", /*replaces_primary=*/true);
  *status.add_shards() = Shard(Backup::kWhole, "s3", /*replaces_primary=*/false);
  CountFills(status, &fills);
  EXPECT_THAT(fills, UnorderedElementsAre(Pair("s1", 2), Pair("s2", 2), Pair("s3", 2)));
}

}  // namespace

}  // namespace strata::server
