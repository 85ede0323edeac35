#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/placement/job_protection.h"
#include "server/coordinator/placement/rank_allocation.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {
namespace {

using Outcome = RankAllocation::Outcome;

// "w1:0+2 w2:2+2": daemon, first rank, ranks.
std::string Text(const RankAllocation& allocation) {
  std::string text;
  for (const RankBlock& block : allocation.blocks) {
    text += (text.empty() ? "" : " ") + block.daemon + ":" + std::to_string(block.first_rank) +
            "+" + std::to_string(block.ranks);
  }
  return text;
}

TEST(AllocateRanks, EachNodeInTurnGivesAllItsFreeSlots) {
  EXPECT_EQ(Text(AllocateRanks({4, 0}, {{"w1", 2}, {"w2", 2}})), "w1:0+2 w2:2+2");
  EXPECT_EQ(Text(AllocateRanks({3, 0}, {{"w1", 2}, {"w2", 2}})), "w1:0+2 w2:2+1");
  EXPECT_EQ(Text(AllocateRanks({3, 0}, {{"w1", 4, 3}, {"w2", 1, 1}, {"w3", 2}})), "w1:0+1 w3:1+2");
}

TEST(AllocateRanks, RanksPerNodeTakesJustSoMany) {
  EXPECT_EQ(Text(AllocateRanks({2, 1}, {{"w1", 4}, {"w2", 4}})), "w1:0+1 w2:1+1");
  EXPECT_EQ(Text(AllocateRanks({4, 2}, {{"w1", 1}, {"w2", 2}, {"w3", 4, 1}})), "w2:0+2 w3:2+2");
  EXPECT_EQ(Text(AllocateRanks({3, 2}, {{"w1", 2}, {"w2", 2}})), "w1:0+2 w2:2+1");
}

TEST(AllocateRanks, NodesThatAreToHaveTheirRanksAgainGetWorkersWithRoomForThem) {
  const auto place = [](std::vector<uint32_t> of_nodes, const std::vector<WorkerSlots>& workers) {
    return AllocateRanks({.ranks = 3, .of_nodes = std::move(of_nodes)}, workers);
  };
  EXPECT_EQ(Text(place({1, 2}, {{"w1", 2}, {"w2", 1}})), "w2:0+1 w1:1+2");
  EXPECT_EQ(Text(place({2, 1}, {{"w1", 8}, {"w2", 8}})), "w1:0+2 w2:2+1");
  const RankAllocation waits = place({2, 1}, {{"w1", 8}, {"w2", 8, 8}});
  EXPECT_EQ(waits.outcome, Outcome::kWaitsForSlots);
  EXPECT_EQ(
      waits.reason,
      "waits for 3 more free slots: needs 3 slots, 2 + 1 on its nodes as before, 8 of 16 free");
  EXPECT_EQ(place({2, 1}, {{"w1", 8}}).outcome, Outcome::kNeverFits);
}

TEST(AllocateRanks, SaysWhatItWaitsForWhenSlotsAreInUse) {
  const RankAllocation allocation = AllocateRanks({4, 0}, {{"w1", 2, 2}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kWaitsForSlots);
  EXPECT_EQ(allocation.reason, "waits for 2 more free slots: needs 4 slots, 2 of 4 free");
  EXPECT_TRUE(allocation.blocks.empty());
}

TEST(AllocateRanks, WaitsForLostNodes) {
  const RankAllocation allocation =
      AllocateRanks({4, 0}, {{"w1", 2}, {.daemon = "w2", .slots = 2, .alive = false}});
  EXPECT_EQ(allocation.outcome, Outcome::kWaitsForNodes);
  EXPECT_EQ(allocation.reason,
            "waits for lost worker nodes: needs 4 slots; all 2 worker nodes together have 4 slots: "
            "w1 2, w2 2 (lost)");
}

TEST(AllocateRanks, NeverFitsWhatIsMoreThanAllSlots) {
  const RankAllocation allocation = AllocateRanks({8, 0}, {{"w1", 2, 1}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kNeverFits);
  EXPECT_EQ(allocation.reason,
            "needs 8 slots, but all 2 worker nodes together have 4 slots: w1 2, w2 2");
}

TEST(AllocateRanks, NeverFitsMoreRanksPerNodeThanAnyNodeHas) {
  const RankAllocation allocation = AllocateRanks({4, 4}, {{"w1", 2}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kNeverFits);
  EXPECT_EQ(allocation.reason,
            "needs 4 slots, 4 per node, but none has as many: all 2 worker nodes together have 4 "
            "slots: w1 2, w2 2");
}

TEST(AllocateRanks, NeverFitsMoreNodesThanThereAre) {
  const RankAllocation one = AllocateRanks({2, 1}, {{"w1", 8}});
  EXPECT_EQ(one.outcome, Outcome::kNeverFits);
  EXPECT_EQ(one.reason, "needs 2 workers (ranks_per_node: 1); there is 1");
  EXPECT_EQ(AllocateRanks({4, 1}, {{"w1", 4}, {"w2", 4}}).reason,
            "needs 4 workers (ranks_per_node: 1); there are 2");
  EXPECT_EQ(AllocateRanks({6, 2}, {{"w1", 2}, {"w2", 1}, {"w3", 1}, {"w4", 2}}).reason,
            "needs 3 workers with 2 slots (ranks_per_node: 2); there are 2 of 4");
}

// Two slots each; w1 has one GPU slot, w2 two.
std::vector<WorkerSlots> GpuWorkers(uint32_t w1_used, uint32_t w2_used) {
  return {{"w1", 2, w1_used, true, 1, w1_used}, {"w2", 2, w2_used, true, 2, w2_used}};
}

RankAllocation OnGpus(uint32_t ranks, const std::vector<WorkerSlots>& workers) {
  return AllocateRanks({.ranks = ranks, .on_gpus = true}, workers);
}

TEST(AllocateRanks, RanksOnGpusTakeASlotAndAGpuSlotEach) {
  EXPECT_EQ(Text(OnGpus(3, GpuWorkers(0, 0))), "w1:0+1 w2:1+2");
  EXPECT_EQ(Text(OnGpus(1, GpuWorkers(1, 0))), "w2:0+1");
  EXPECT_EQ(Text(AllocateRanks({4, 0}, GpuWorkers(0, 0))), "w1:0+2 w2:2+2") << "others need none";
  EXPECT_EQ(Text(AllocateRanks({2, 2, true}, GpuWorkers(0, 0))), "w2:0+2");
}

TEST(AllocateRanks, SaysThatItIsGpusItWaitsFor) {
  const RankAllocation allocation = OnGpus(3, GpuWorkers(0, 1));
  EXPECT_EQ(allocation.outcome, Outcome::kWaitsForSlots);
  EXPECT_EQ(allocation.reason, "waits for 1 more free GPU slot: needs 3 GPU slots, 2 of 3 free");
  EXPECT_TRUE(allocation.lacks_gpus);
}

TEST(AllocateRanks, NamesSlotsWhereGpusAreFreeButSlotsAreNot) {
  const RankAllocation allocation = OnGpus(2, {{"w1", 2, 2, true, 2, 0}});
  EXPECT_EQ(allocation.reason, "waits for 2 more free slots: needs 2 slots, 0 of 2 free");
  EXPECT_FALSE(allocation.lacks_gpus);
}

TEST(AllocateRanks, NeverFitsOnGpusThatNobodyHas) {
  const RankAllocation allocation = OnGpus(2, {{"w1", 2}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kNeverFits);
  EXPECT_EQ(allocation.reason,
            "needs 2 GPU slots, but all 2 worker nodes together have 0 GPU slots: w1 0, w2 0; "
            "`strata devices` there says why, unless --gpus does");
}

TEST(AllocateRanks, NeverFitsWhereGpusAndSlotsAreOnDifferentNodes) {
  const RankAllocation allocation = OnGpus(3, {{"w1", 1, 0, true, 4, 0}, {"w2", 4, 0, true, 1, 0}});
  EXPECT_EQ(allocation.outcome, Outcome::kNeverFits);
  EXPECT_EQ(allocation.reason,
            "needs 3 slots with a GPU slot, but all 2 worker nodes together have 2 slots with a "
            "GPU slot: w1 1, w2 1");
}

TEST(AllocateRanks, CountsWhatAWorkerHasFreeForAWish) {
  const WorkerSlots worker = {"w1", 4, 1, true, 2, 1};
  EXPECT_EQ(FreeFor({.ranks = 1}, worker), 3u);
  EXPECT_EQ(FreeFor({.ranks = 1, .on_gpus = true}, worker), 1u);
}

using proto::Job;

// Returns the protection that a job gets for its request, or "refused".
std::string Settled(const ProtectionRules& rules, Job::Protection asked) {
  Job job;
  job.set_protection(asked);
  const absl::Status settled = SettleProtection(rules, &job);
  return settled.ok() ? Job::Protection_Name(job.protection()) : "refused";
}

TEST(JobProtection, TheClusterDecides) {
  const ProtectionRules none;
  EXPECT_EQ(Settled(none, Job::BY_CLUSTER), "PLAIN");
  EXPECT_EQ(Settled(none, Job::ENCRYPT), "refused");
  EXPECT_EQ(Settled(none, Job::SIGN), "refused");
  EXPECT_EQ(Settled(none, Job::PLAIN), "PLAIN");
  const ProtectionRules socket = {.keeps_secrets = true};
  EXPECT_EQ(Settled(socket, Job::BY_CLUSTER), "PLAIN");
  EXPECT_EQ(Settled(socket, Job::ENCRYPT), "ENCRYPT");
  EXPECT_EQ(Settled(socket, Job::SIGN), "SIGN");
  const ProtectionRules keys = {.has_keys = true, .keeps_secrets = true};
  EXPECT_EQ(Settled(keys, Job::BY_CLUSTER), "ENCRYPT");
  EXPECT_EQ(Settled(keys, Job::ENCRYPT), "ENCRYPT");
  EXPECT_EQ(Settled(keys, Job::SIGN), "SIGN");
  EXPECT_EQ(Settled(keys, Job::PLAIN), "refused");
  EXPECT_EQ(Settled({.has_keys = true, .keeps_secrets = true, .allows_plain = true}, Job::PLAIN),
            "PLAIN");
}

TEST(JobProtection, TheRefusalSaysWhatToDo) {
  Job job;
  job.set_protection(Job::SIGN);
  EXPECT_EQ(SettleProtection({}, &job).message(),
            "protection: SIGN needs a cluster with keys, and this coordinator runs with "
            "--insecure");
  job.set_protection(Job::PLAIN);
  EXPECT_EQ(SettleProtection({.has_keys = true}, &job).message(),
            "protection: PLAIN is not allowed here: the cluster's policy has no `allow_plain: "
            "true`");
}

TEST(JobProtection, WhatStrataCannotProtectDoesNotPassUnnoticed) {
  Job job;
  job.set_exchange(Job::NCCL);
  const ProtectionRules keys = {.has_keys = true};
  for (const Job::Protection protection : {Job::ENCRYPT, Job::SIGN}) {
    job.set_protection(protection);
    EXPECT_FALSE(AllowForeignTraffic(keys, job).ok());
    EXPECT_TRUE(AllowForeignTraffic({.has_keys = true, .trusts_network = true}, job).ok());
  }
  job.set_protection(Job::PLAIN);
  EXPECT_TRUE(AllowForeignTraffic(keys, job).ok());
  job.set_protection(Job::ENCRYPT);
  job.set_exchange(Job::RING);
  EXPECT_TRUE(AllowForeignTraffic(keys, job).ok());
}

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
