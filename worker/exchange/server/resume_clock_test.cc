#include "worker/exchange/server/resume_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace strata::worker {
namespace {

// Of a job whose chunk 0 is on server a, chunk 1 on b, that goes on from a checkpoint of clock 4.
proto::JobRecord Record() {
  proto::JobRecord record;
  record.mutable_resume()->set_clock(4);
  for (const char* server : {"a", "b"}) record.mutable_placement()->add_shard_endpoints(server);
  for (const uint32_t shard : {0, 1}) record.mutable_placement()->add_shard_of_chunk(shard);
  return record;
}

TEST(ResumeClockTest, IsTheLeastOfTheChunksWhereTheyMayDiffer) {
  proto::JobRecord record = Record();
  record.mutable_job()->mutable_consistency()->mutable_async();
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{7, 5}), 5u);
}

TEST(ResumeClockTest, IsTheCheckpointsWhereNodesOrRanksKeepStateOfThatClock) {
  proto::JobRecord record = Record();
  record.mutable_job()->mutable_consistency()->mutable_async();
  record.set_ranks_keep_state(true);
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{7, 5}), 4u);
  record.set_ranks_keep_state(false);
  record.mutable_job()->mutable_push()->set_codec(proto::Encoding::ONE_BIT);
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{7, 5}), 4u);
}

TEST(ResumeClockTest, ACheckpointThatLacksPushesBeforeItsClockIsRefused) {
  proto::JobRecord record = Record();
  record.mutable_job()->mutable_consistency()->mutable_async();
  record.set_ranks_keep_state(true);
  EXPECT_EQ(FindResumeClock(record, std::vector<uint64_t>{4, 3}).status(),
            absl::FailedPreconditionError("the job goes on from a checkpoint of clock 4, which has "
                                          "3 pushes of this node only"));
}

TEST(ResumeClockTest, ChunksThatMayNotDifferAreNamed) {
  proto::JobRecord record = Record();
  record.mutable_job()->mutable_consistency()->mutable_sync();
  EXPECT_EQ(*FindResumeClock(record, std::vector<uint64_t>{4, 4}), 4u);
  EXPECT_EQ(FindResumeClock(record, std::vector<uint64_t>{4, 5}).status(),
            absl::FailedPreconditionError("the job goes on from a checkpoint at clock 4 with chunk "
                                          "0 (server a), but at clock 5 with chunk 1 (server b)"));
}

}  // namespace
}  // namespace strata::worker
