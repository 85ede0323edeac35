#include "server/coordinator/placement/reached_servers.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

// No servers, so that all workers reach them; core_replace_test.cc has some.
class SpareWorkerTest : public ::testing::Test {
 protected:
  SpareWorker Choose(const SpareWish& wish, const std::vector<WorkerSlots>& workers) {
    return ChooseSpareWorker(wish, workers, reached_, absl::UnixEpoch());
  }

  Membership membership_{{}, "cluster"};
  Reachability reachability_{{}, &membership_};
  ReachedServers reached_{&membership_, &reachability_};
};

TEST_F(SpareWorkerTest, TheFirstThatHasRoomUnlessOneIsToComeFirstOrLast) {
  const std::vector<WorkerSlots> workers = {{.daemon = "w1", .slots = 2, .used = 1},
                                            {.daemon = "w2", .slots = 2},
                                            {.daemon = "w3", .slots = 4, .used = 2},
                                            {.daemon = "w4", .slots = 9, .alive = false}};
  EXPECT_EQ(Choose({.ranks = 2}, workers).daemon, "w2");
  EXPECT_EQ(Choose({.ranks = 2, .first = "w3"}, workers).daemon, "w3");
  EXPECT_EQ(Choose({.ranks = 2, .first = "w4"}, workers).daemon, "w2") << "it is lost";
  EXPECT_EQ(Choose({.ranks = 2, .last = "w2"}, workers).daemon, "w3");
  EXPECT_EQ(Choose({.ranks = 2, .last = "w2"}, {workers[1]}).daemon, "w2");
}

TEST_F(SpareWorkerTest, OnGpusItNeedsBothKindsOfSlots) {
  const std::vector<WorkerSlots> workers = {
      {.daemon = "w1", .slots = 2, .gpu_slots = 2, .gpu_slots_used = 1},
      {.daemon = "w2", .slots = 2, .gpu_slots = 2}};
  EXPECT_EQ(Choose({.ranks = 2, .on_gpus = true}, workers).daemon, "w2");
  EXPECT_EQ(Choose({.ranks = 2}, workers).daemon, "w1");
}

TEST_F(SpareWorkerTest, WaitsForSlotsOnlyWhereRunningJobsHoldThem) {
  const SpareWorker busy = Choose({.ranks = 2}, {{.daemon = "w1", .slots = 2, .used = 1}});
  EXPECT_EQ(busy.daemon, "");
  EXPECT_TRUE(busy.waits_for_slots);
  EXPECT_EQ(busy.reason,
            "waits for 2 more free slots: needs 2 slots, 2 per node, 1 of 2 free, besides the "
            "job's own workers");
  const SpareWorker small = Choose({.ranks = 2}, {{.daemon = "w1", .slots = 1}});
  EXPECT_FALSE(small.waits_for_slots);
  EXPECT_THAT(small.reason, HasSubstr("the one worker node has 1 slot: w1 1"));
  const SpareWorker lost = Choose({.ranks = 2}, {{.daemon = "w1", .slots = 2, .alive = false}});
  EXPECT_FALSE(lost.waits_for_slots);
  const SpareWorker none = Choose({.ranks = 2}, {});
  EXPECT_FALSE(none.waits_for_slots);
  EXPECT_EQ(none.reason, "no worker is there that plays no node of the job");
}

}  // namespace
}  // namespace strata::server
