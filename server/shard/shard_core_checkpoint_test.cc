// Checkpoints that a shard cuts and jobs that it takes in from one.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two chunks of 4 elements, one node.
proto::JobRecord Record(uint32_t shards) {
  JobOptions options;
  options.ranks = {1};
  options.shards = shards;
  options.job_text =
      "optimizer { sgd {} } schedule { base_lr: 1 } checkpoint { dir: '/c' every_steps: 1 }";
  return MakeRecord(options);
}

ChunkImage Image(uint64_t begin, size_t elements = 4) {
  ChunkImage image{.begin = begin, .clock = 6};
  image.weights.version = image.weights.updates = 6;
  image.weights.weights = ToBytes(std::vector<float>(elements, 1));
  return image;
}

absl::Status Install(std::vector<ChunkImage> images, uint32_t shards = 1) {
  proto::JobRecord record = Record(shards);
  record.mutable_resume()->set_clock(6);
  return ShardCore(kernels::Cpu()).Install(record, ShardId(0), images);
}

TEST(ShardCoreCheckpoint, AShardTakesTheImagesOfItsOwnChunks) {
  EXPECT_EQ(Install({Image(4), Image(0)}), absl::OkStatus());
  EXPECT_EQ(Install({Image(0)}, /*shards=*/2), absl::OkStatus()) << "the other chunk is elsewhere";
}

TEST(ShardCoreCheckpoint, ImagesThatDoNotFitAreRefusedByName) {
  EXPECT_EQ(Install({Image(0)}),
            absl::InvalidArgumentError(
                "job 7: the checkpoint has no elements from 4 on, where chunk 1 begins"));
  EXPECT_EQ(Install({Image(0), Image(4), Image(0)}),
            absl::InvalidArgumentError("job 7: the checkpoint's chunk 0: it is there twice"));
  const absl::Status other = Install({Image(0), Image(4, 3)});
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(other.message(), testing::HasSubstr("job 7: the checkpoint's chunk 1: "));
}

TEST(ShardCoreCheckpoint, AJobIsTakenInInTurnsAndIsNotHereBefore) {
  proto::JobRecord record = Record(1);
  record.mutable_resume()->set_clock(6);
  const std::vector<ChunkImage> images = {Image(0), Image(4)};
  ShardCore shard(kernels::Cpu());
  EXPECT_EQ(*shard.BeginInstall(record, ShardId(0)), false);
  EXPECT_EQ(*shard.BeginInstall(record, ShardId(0)), false) << "asked again";
  const absl::Span<const ChunkImage> all = images;
  EXPECT_EQ(shard.InstallMore(JobId(7), all.subspan(0, 1)), absl::OkStatus());
  EXPECT_EQ(shard.InstallMore(JobId(7), all.subspan(1, 1)), absl::OkStatus());
  EXPECT_THAT(shard.Counters(), IsEmpty());
  EXPECT_EQ(shard.EndInstall(JobId(7)), absl::OkStatus());
  EXPECT_THAT(shard.Counters(), SizeIs(1));
  EXPECT_EQ(*shard.BeginInstall(record, ShardId(0)), true);
  EXPECT_EQ(shard.EndInstall(JobId(7)), absl::OkStatus()) << "asked again";
  // One that is removed meanwhile is gone.
  ShardCore other(kernels::Cpu());
  std::vector<ShardAction> actions;
  EXPECT_EQ(*other.BeginInstall(record, ShardId(0)), false);
  other.Remove(JobId(7), &actions);
  EXPECT_EQ(other.InstallMore(JobId(7), images).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(other.EndInstall(JobId(7)).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(other.Counters(), IsEmpty());
}

class CuttingShard : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(shard_.core().Install(record_, ShardId(0)), absl::OkStatus());
    connection_ = shard_.Join(record_, 0);
    for (uint32_t chunk : {0, 1}) {
      shard_.Deliver(connection_, InitFrame(record_, 0, chunk, {1, 1, 1, 1}));
    }
  }
  void Push(uint32_t chunk, uint64_t clock) {
    shard_.Deliver(connection_, PushFrame(record_, 0, chunk, clock, {1, 1, 1, 1}, 4, clock));
  }
  std::vector<ShardCut> Step(uint64_t clock) {
    for (uint32_t chunk : {0, 1}) Push(chunk, clock);
    return shard_.core().TakeCuts();
  }

  const proto::JobRecord record_ = Record(1);
  ShardHarness shard_;
  transport::ConnectionId connection_;
};

TEST_F(CuttingShard, GivesACutOnceAllItsChunksHaveComeToTheClock) {
  Push(0, 0);
  EXPECT_FALSE(shard_.core().has_cuts());
  Push(1, 0);
  EXPECT_TRUE(shard_.core().has_cuts());
  const std::vector<ShardCut> cuts = shard_.core().TakeCuts();
  ASSERT_THAT(cuts, SizeIs(1));
  EXPECT_EQ(cuts[0].job, JobId(7));
  EXPECT_EQ(cuts[0].shard, ShardId(0));
  EXPECT_EQ(cuts[0].clock, 1);
  EXPECT_THAT(cuts[0].images, SizeIs(2));
  EXPECT_THAT(shard_.core().TakeCuts(), IsEmpty());
}

TEST_F(CuttingShard, HoldsNoMoreThanItsMemoryIsPromisedUntilCutsAreLetGoOf) {
  EXPECT_EQ(Step(0).at(0).problem, "");
  EXPECT_EQ(Step(1).at(0).problem, "");
  const std::vector<ShardCut> third = Step(2);
  ASSERT_THAT(third, SizeIs(1));
  EXPECT_THAT(third[0].problem, testing::HasSubstr("checkpoint of clock 1 is not written yet"));
  EXPECT_THAT(third[0].images, IsEmpty());
  shard_.core().LetGoOf(JobId(7), ShardId(1), 1);  // another shard's
  shard_.core().LetGoOf(JobId(8), ShardId(0), 1);  // another job's
  EXPECT_NE(Step(3).at(0).problem, "");
  shard_.core().LetGoOf(JobId(7), ShardId(0), 1);
  EXPECT_EQ(Step(4).at(0).problem, "");
}

}  // namespace
}  // namespace strata::server
