#include "server/coordinator/placement/shard_moves.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

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
