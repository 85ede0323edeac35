#include "server/coordinator/rank_allocation.h"

#include "gtest/gtest.h"

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
  EXPECT_EQ(Text(AllocateRanks(4, 0, {{"w1", 2}, {"w2", 2}})), "w1:0+2 w2:2+2");
  EXPECT_EQ(Text(AllocateRanks(3, 0, {{"w1", 2}, {"w2", 2}})), "w1:0+2 w2:2+1");
  EXPECT_EQ(Text(AllocateRanks(3, 0, {{"w1", 4, 3}, {"w2", 1, 1}, {"w3", 2}})), "w1:0+1 w3:1+2");
}

TEST(AllocateRanks, RanksPerNodeTakesJustSoMany) {
  EXPECT_EQ(Text(AllocateRanks(2, 1, {{"w1", 4}, {"w2", 4}})), "w1:0+1 w2:1+1");
  EXPECT_EQ(Text(AllocateRanks(4, 2, {{"w1", 1}, {"w2", 2}, {"w3", 4, 1}})), "w2:0+2 w3:2+2");
  EXPECT_EQ(Text(AllocateRanks(3, 2, {{"w1", 2}, {"w2", 2}})), "w1:0+2 w2:2+1");
}

TEST(AllocateRanks, SaysWhatItWaitsForWhenSlotsAreInUse) {
  const RankAllocation allocation = AllocateRanks(4, 0, {{"w1", 2, 2}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kWaitsForSlots);
  EXPECT_EQ(allocation.reason, "waits for 2 more free slots: needs 4 slots, 2 of 4 free");
  EXPECT_TRUE(allocation.blocks.empty());
}

TEST(AllocateRanks, WaitsForLostNodes) {
  const RankAllocation allocation =
      AllocateRanks(4, 0, {{"w1", 2}, {.daemon = "w2", .slots = 2, .alive = false}});
  EXPECT_EQ(allocation.outcome, Outcome::kWaitsForNodes);
  EXPECT_EQ(allocation.reason,
            "waits for lost worker nodes: needs 4 slots; all 2 worker nodes together have 4 slots: "
            "w1 2, w2 2 (lost)");
}

TEST(AllocateRanks, NeverFitsWhatIsMoreThanAllSlots) {
  const RankAllocation allocation = AllocateRanks(8, 0, {{"w1", 2, 1}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kNeverFits);
  EXPECT_EQ(allocation.reason,
            "needs 8 slots, but all 2 worker nodes together have 4 slots: w1 2, w2 2");
}

TEST(AllocateRanks, NeverFitsMoreRanksPerNodeThanAnyNodeHas) {
  const RankAllocation allocation = AllocateRanks(4, 4, {{"w1", 2}, {"w2", 2}});
  EXPECT_EQ(allocation.outcome, Outcome::kNeverFits);
  EXPECT_EQ(allocation.reason,
            "needs 4 slots, 4 per node, but none has as many: all 2 worker nodes together have 4 "
            "slots: w1 2, w2 2");
}

TEST(AllocateRanks, NeverFitsMoreNodesThanThereAre) {
  EXPECT_EQ(AllocateRanks(2, 1, {{"w1", 8}}).outcome, Outcome::kNeverFits);
}

}  // namespace
}  // namespace strata::server
