#include "bench/train/train_case.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace strata::bench {
namespace {

std::string TextOf(const std::vector<TrainCase>& cases) {
  return absl::StrJoin(cases, " ", [](std::string* out, const TrainCase& what) {
    absl::StrAppend(out, what.mode, what.ranks, "/", what.nodes);
  });
}

TEST(CasesOfTest, RanksArePowersOfTwoUpToTheMostAndThat) {
  EXPECT_EQ(TextOf(CasesOf({.modes = {"sync"}, .ranks_max = 6})),
            "none1/1 sync1/1 none2/2 sync2/1 none4/4 sync4/1 none6/6 sync6/1");
  EXPECT_EQ(TextOf(CasesOf({.modes = {"sync"}, .ranks_max = 1})), "none1/1 sync1/1");
}

TEST(CasesOfTest, ARingHasANodePerRankAndAtLeastTwo) {
  EXPECT_EQ(TextOf(CasesOf({.modes = {"ring", "nccl"}, .ranks_max = 2})),
            "none1/1 nccl1/1 none2/2 ring2/2 nccl2/1");
}

TEST(CasesOfTest, NodesAreFilledWhereTheirSizeIsSaid) {
  EXPECT_EQ(TextOf(CasesOf({.modes = {"async", "ring"}, .ranks_max = 8, .ranks_per_node = 2})),
            "none1/1 async1/1 none2/2 async2/1 none4/4 async4/2 ring4/2 none8/8 async8/4 ring8/4");
  // 4 ranks fill no nodes of 3.
  EXPECT_EQ(TextOf(CasesOf({.modes = {"sync"}, .ranks_max = 6, .ranks_per_node = 3})),
            "none1/1 sync1/1 none2/2 sync2/1 none4/4 none6/6 sync6/2");
}

TEST(CheckModesTest, OneThatIsNoneIsRefusedByName) {
  EXPECT_TRUE(CheckModes({"sync", "lazy", "async", "ring", "nccl"}).ok());
  EXPECT_EQ(CheckModes({"sync", "none"}).message(),
            "--modes none: not one of sync, lazy, async, ring, nccl");
}

// What stands behind an option, "" where the option is not there.
std::string After(const std::vector<std::string>& command, const std::string& option) {
  const auto at = absl::c_find(command, option);
  return at == command.end() ? "" : *(at + 1);
}

TEST(CommandOfTest, AClusterHasTheRanksNodesAndServersOfTheCase) {
  const TrainRun run = {
      .job = "j", .steps = 80, .servers = 3, .cluster = {"--gpus", "1"}, .dir = "d"};
  const auto sync = CommandOf({"lazy", 8, 4}, run);
  EXPECT_EQ(After(sync, "--nodes") + After(sync, "--slots") + After(sync, "--servers"), "423");
  EXPECT_EQ(After(sync, "--mode"), "lazy");
  EXPECT_EQ(After(sync, "--gpus"), "1");
  EXPECT_TRUE(absl::c_linear_search(sync, "ranks=8"));
  EXPECT_TRUE(absl::c_linear_search(sync, "ranks_per_node=2"));
  EXPECT_TRUE(absl::c_linear_search(sync, "metrics.every_steps=10"));
  const auto ring = CommandOf({"ring", 2, 2}, run);
  EXPECT_EQ(After(ring, "--nodes") + After(ring, "--slots") + After(ring, "--servers"), "210");
  EXPECT_EQ(After(ring, "--mode"), "sync");
  EXPECT_TRUE(absl::c_linear_search(ring, "exchange=RING"));
}

TEST(CommandOfTest, WhoExchangesNothingIsOneRankAlone) {
  const auto none = CommandOf({"none", 4, 4}, {.job = "j", .steps = 2, .servers = 3, .dir = "d"});
  EXPECT_EQ(After(none, "--nodes") + After(none, "--slots") + After(none, "--servers"), "110");
  EXPECT_EQ(After(none, "--mode"), "");
  EXPECT_TRUE(absl::c_linear_search(none, "ranks=1"));
  EXPECT_TRUE(absl::c_linear_search(none, "exchange=NONE"));
}

}  // namespace
}  // namespace strata::bench
