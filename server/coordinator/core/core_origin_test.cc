// Jobs that have gone on from a folder of another job, and write checkpoints of their own.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class CoreOriginTest : public ::testing::Test {
 protected:
  CoreOriginTest() {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 2);
  }
  // Brings the job to training, from the checkpoint that its store has.
  void Train(const CheckpointFound& found) {
    cluster_.Found(job_, found);
    cluster_.Advance(absl::Minutes(1));
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_can_resume(true);
    cluster_.Ready("w1", ready);
    cluster_.Installed("s1", job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << cluster_.Status(job_).reason();
    cluster_.TakeQueries();
  }
  CheckpointFound Write(uint64_t clock) {
    cluster_.WritePart("s1", job_, clock, 0);
    const std::vector<CheckpointToKeep> to_keep = cluster_.TakeToKeep();
    EXPECT_THAT(to_keep, SizeIs(1));
    if (to_keep.empty()) return {};
    cluster_.Kept(job_, clock);
    CheckpointFound found{.manifest = to_keep[0].manifest};
    EXPECT_TRUE(found.record.ParseFromString(found.manifest.record));
    return found;
  }
  // A job in /d that has gone on from another one's checkpoint of step 10 in /c.
  CheckpointFound Begin() {
    proto::Job wish = CoreHarness::SomeJob(2);
    wish.mutable_checkpoint()->set_every_steps(10);
    wish.mutable_restart()->set_attempts(3);
    wish.mutable_checkpoint()->set_dir("/c");
    job_ = cluster_.Submit(wish);
    Train({});
    const CheckpointFound origin = Write(10);
    cluster_.Finished("w1", job_);
    wish.mutable_checkpoint()->set_dir("/d");
    job_ = cluster_.Submit(wish, "/c");
    Train(origin);
    return origin;
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreOriginTest, WithoutTheFolderOfItsOwnItWaitsAndDoesNotGoBackToWhereItBegan) {
  Begin();
  Write(20);
  cluster_.Failed("w1", job_, "boom");
  cluster_.TakeQueries();
  cluster_.Found(job_, absl::NotFoundError("no complete checkpoint in /d"));
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("is the folder there?"));
  cluster_.Advance(absl::Seconds(6));
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_THAT(queries, SizeIs(1));
  EXPECT_EQ(queries[0].resume_dir, "/d");
}

TEST_F(CoreOriginTest, WhereAllOfItsOwnAreDamagedItGoesBackToWhereItBeganAndWritesThemAnew) {
  const CheckpointFound origin = Begin();
  const CheckpointFound own = Write(40);
  cluster_.Failed("w1", job_, "boom");
  cluster_.Found(job_, own);
  cluster_.Advance(absl::Seconds(1));
  proto::NodeReady ready = CoreHarness::SomeLayout(job_);
  ready.set_can_resume(true);
  cluster_.Ready("w1", ready);
  cluster_.Installed("s1", job_, "shard-0: checksum", /*is_damaged=*/true);
  cluster_.TakeQueries();
  cluster_.Found(job_, absl::NotFoundError("no complete checkpoint in /d of a step before 40"));
  EXPECT_EQ(cluster_.TakeQueries().at(0).resume_dir, "/c");
  Train(origin);
  EXPECT_EQ(cluster_.Status(job_).checkpoints().resumed_step(), 10);
  EXPECT_EQ(cluster_.Status(job_).checkpoints().complete(), 0) << "it has none of its own";
  // That of step 20 counts for a coordinator that takes over now, too.
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  Write(20);
  EXPECT_EQ(cluster_.Status(job_).checkpoints().newest_step(), 20);
}

}  // namespace
}  // namespace strata::server
