#include "cli/render/drain_text.h"

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

proto::DrainReply OfServer(uint32_t left) {
  proto::DrainReply told;
  told.set_role(proto::SERVER);
  told.set_draining(true);
  told.set_drained(left == 0);
  told.set_shards_left(left);
  if (left == 0) return told;
  proto::DrainedJob* job = told.add_jobs();
  job->set_job_id(3);
  job->set_name("lenet");
  return told;
}

TEST(DrainText, SaysWhatIsLeftAndWhoStays) {
  proto::DrainReply told = OfServer(12);
  EXPECT_EQ(DrainText("s1", told), "s1 is being drained: 12 shards of 1 job to go\n");
  told.mutable_jobs(0)->set_stays("no other server takes it");
  told.set_note("no other server is left");
  EXPECT_EQ(DrainText("s1", told),
            "s1 is being drained: 12 shards of 1 job to go\n"
            "  job 3 (lenet) stays for now: no other server takes it\n"
            "  no other server is left\n");
  EXPECT_EQ(DrainText("s1", OfServer(0)), "s1 is drained: nothing is left there\n");
  EXPECT_EQ(DrainText("s1", proto::DrainReply()), "s1 is back in service\n");
  proto::DrainReply back;
  back.set_note("it only stands in for workers that are lost");
  EXPECT_EQ(DrainText("w9", back),
            "w9 is back in service: it only stands in for workers that are lost\n");
}

TEST(DrainText, CountsWhatHasMoved) {
  EXPECT_EQ(DrainProgress("s1", 12, OfServer(9)), "s1: 3 of 12 shards moved");
  EXPECT_EQ(DrainProgress("s1", 12, OfServer(14)), "s1: 0 of 14 shards moved")
      << "a job that was starting has come";
  proto::DrainReply stays = OfServer(1);
  stays.mutable_jobs(0)->set_stays("no other server takes it");
  EXPECT_EQ(DrainProgress("s1", 1, stays),
            "s1: 0 of 1 shard moved; job 3 (lenet) stays for now: no other server takes it");
  proto::DrainReply worker;
  worker.set_role(proto::WORKER);
  worker.set_draining(true);
  worker.set_nodes_left(1);
  EXPECT_EQ(DrainProgress("w1", 2, worker), "w1: 1 of 2 nodes ended");
}

}  // namespace
}  // namespace strata::cli
