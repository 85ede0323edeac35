#include "measure/train/train_case.h"

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
  EXPECT_EQ(TextOf(MakeCases({.modes = {"sync"}, .ranks_max = 6})),
            "none1/1 sync1/1 none2/2 sync2/1 none4/4 sync4/1 none6/6 sync6/1");
  EXPECT_EQ(TextOf(MakeCases({.modes = {"sync"}, .ranks_max = 1})), "none1/1 sync1/1");
}

TEST(CasesOfTest, ARingHasANodePerRankAndAtLeastTwo) {
  EXPECT_EQ(TextOf(MakeCases({.modes = {"ring", "nccl"}, .ranks_max = 2})),
            "none1/1 nccl1/1 none2/2 ring2/2 nccl2/1");
}

TEST(CasesOfTest, NodesAreFilledWhereTheirSizeIsSaid) {
  EXPECT_EQ(TextOf(MakeCases({.modes = {"async", "ring"}, .ranks_max = 8, .ranks_per_node = 2})),
            "none1/1 async1/1 none2/2 async2/1 none4/4 async4/2 ring4/2 none8/8 async8/4 ring8/4");
  // 4 ranks fill no nodes of 3.
  EXPECT_EQ(TextOf(MakeCases({.modes = {"sync"}, .ranks_max = 6, .ranks_per_node = 3})),
            "none1/1 sync1/1 none2/2 sync2/1 none4/4 none6/6 sync6/2");
}

TEST(CheckModesTest, OneThatIsNoneIsRefusedByName) {
  EXPECT_TRUE(CheckModes({"sync", "lazy", "async", "ring", "nccl"}).ok());
  EXPECT_EQ(CheckModes({"sync", "none"}).message(),
            "--modes none: not one of sync, lazy, async, ring, nccl");
}

TEST(WhyNotTest, NcclNeedsAGpuForEachRankAndRanksASlot) {
  const GpuRoom one = {{3}, 2};
  EXPECT_EQ(WhyNot({"nccl", 1, 1}, one), "");
  EXPECT_EQ(WhyNot({"nccl", 2, 1}, one), "NCCL needs a GPU for each rank: 2 ranks, 1 GPU");
  EXPECT_EQ(WhyNot({"nccl", 2, 1}, {{0, 1}, 1}), "");
  EXPECT_EQ(WhyNot({"sync", 2, 1}, one), "");
  EXPECT_EQ(WhyNot({"sync", 4, 1}, one),
            "a node's 4 ranks have 2 GPU slots (--gpus, --ranks-per-gpu)");
  EXPECT_EQ(WhyNot({"ring", 4, 4}, one), "") << "nodes that share a GPU each have its slots";
  EXPECT_EQ(WhyNot({"ring", 4, 2}, {{0, 1, 2}, 1}),
            "a node's 2 ranks have 1 GPU slot (--gpus, --ranks-per-gpu)");
  EXPECT_EQ(WhyNot({"none", 8, 8}, one), "");
  EXPECT_EQ(WhyNot({"nccl", 8, 1}, {}), "") << "on a CPU the job itself says so";
}

// What stands behind an option, "" where the option is not there.
std::string After(const std::vector<std::string>& command, const std::string& option) {
  const auto at = absl::c_find(command, option);
  return at == command.end() ? "" : *(at + 1);
}

TEST(CommandOfTest, AClusterHasTheRanksNodesAndServersOfTheCase) {
  const TrainRun run = {.job = "j",
                        .steps = 80,
                        .servers = 3,
                        .cluster = {"--device-plugin", "p"},
                        .gpus = {1, 2},
                        .dir = "d"};
  const auto sync = MakeCommand({"lazy", 8, 4}, run);
  EXPECT_EQ(After(sync, "--nodes") + After(sync, "--slots") + After(sync, "--servers"), "423");
  EXPECT_EQ(After(sync, "--mode"), "lazy");
  EXPECT_EQ(After(sync, "--device-plugin"), "p");
  EXPECT_EQ(After(sync, "--gpus"), "1,2");
  EXPECT_TRUE(absl::c_linear_search(sync, "ranks=8"));
  EXPECT_TRUE(absl::c_linear_search(sync, "ranks_per_node=2"));
  EXPECT_TRUE(absl::c_linear_search(sync, "metrics.every_steps=10"));
  EXPECT_EQ(After(sync, "--runs"), "d");
  EXPECT_TRUE(absl::c_linear_search(sync, "run_dir=\"d/run\"")) << "below it";
  const auto ring = MakeCommand({"ring", 2, 2}, run);
  EXPECT_EQ(After(ring, "--nodes") + After(ring, "--slots") + After(ring, "--servers"), "210");
  EXPECT_EQ(After(ring, "--mode"), "sync");
  EXPECT_TRUE(absl::c_linear_search(ring, "exchange=RING"));
}

TEST(CommandOfTest, WhoExchangesNothingIsOneRankAlone) {
  const auto none = MakeCommand({"none", 4, 4}, {.job = "j", .steps = 2, .servers = 3, .dir = "d"});
  EXPECT_EQ(After(none, "--nodes") + After(none, "--slots") + After(none, "--servers"), "110");
  EXPECT_EQ(After(none, "--mode") + After(none, "--gpus"), "");
  EXPECT_TRUE(absl::c_linear_search(none, "ranks=1"));
  EXPECT_TRUE(absl::c_linear_search(none, "exchange=NONE"));
}

}  // namespace
}  // namespace strata::bench
