// A soak: jobs of which a random process is killed at a random time, again and again. Each must end
// finished, and its model must equal the undisturbed one's. Not a part of the normal tests:
//
//   bazel run //tests/e2e:resume_soak                    10 rounds in sync, 5 in lazy(0)
//   STRATA_SOAK_ROUNDS=100 STRATA_SOAK_SEED=7 bazel run //tests/e2e:resume_soak
#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/process/environment.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

constexpr int kSteps = 150;

uint32_t FromEnvironment(const char* name, uint32_t otherwise) {
  uint32_t value = 0;
  return absl::SimpleAtoi(Variable(OwnEnvironment(), name), &value) ? value : otherwise;
}

class Soak : public Checkpointed {
 protected:
  void RunRounds(int rounds, const std::string& consistency) {
    Start({.servers = 2, .shards = 1, .nodes = 2, .slots = 2});
    const std::string undisturbed =
        Model(Run(CheckpointedJob("undisturbed", 2, kSteps, consistency)));
    int equal = 0, restarts = 0;
    for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
      const std::string folder = absl::StrCat("round-", round);
      proto::Job job = CheckpointedJob(folder, 2, kSteps, consistency);
      GoOnByItself(&job);
      SlowDown(&job, 5);
      const JobId id = Submit(job);
      // Before it has trained, a failure is the job's own.
      cluster_->WaitForStep(id, 1);
      std::string killed;
      for (int i = 0; i < 2; ++i) absl::StrAppend(&killed, " ", KillOneLater());
      const proto::JobStatus status = cluster_->WaitForEnd(id, absl::Seconds(60));
      const bool is_equal = status.state() == proto::FINISHED && Model(status) == undisturbed;
      EXPECT_TRUE(is_equal) << "round " << round << killed << ": " << status.ShortDebugString();
      ExpectWindows(status, kSteps, consistency == "sync {}");
      equal += is_equal ? 1 : 0;
      restarts += status.restarts_size();
      std::printf("round %d of %d:%s: %d restarts, %s\n", round + 1, rounds, killed.c_str(),
                  status.restarts_size(), is_equal ? "equal" : "DIFFERENT");
      std::fflush(stdout);
      std::filesystem::remove_all(TestDir() + "/" + folder);
    }
    std::printf("%s: %d of %d equal, %d restarts, seed %u\n", consistency.c_str(), equal, rounds,
                restarts, seed_);
    cluster_->StopAll();
    cluster_.reset();
    std::filesystem::remove_all(TestDir());
  }
  // Returns whom it killed. A daemon is started again.
  std::string KillOneLater() {
    const int ms = Draw(1500);
    WaitUntil([until = absl::Now() + absl::Milliseconds(ms)] { return absl::Now() >= until; });
    const int i = Draw(2);
    switch (Draw(5)) {
      case 0:
        return absl::StrCat(KillOneOf("rank"), "@", ms);
      case 1:
        return absl::StrCat(KillOneOf("aggregator"), "@", ms);
      case 2:
        Again(&cluster_->server(i), [&] { return cluster_->StartServer(i); });
        return absl::StrCat("server@", ms);
      case 3:
        Again(&cluster_->worker(i), [&] { return cluster_->StartWorker(i); });
        return absl::StrCat("worker@", ms);
      default:
        Again(&cluster_->coordinator(), [&] { return cluster_->StartCoordinator(); });
        return absl::StrCat("coordinator@", ms);
    }
  }
  std::string KillOneOf(const std::string& role) {
    const std::vector<int> pids = ListProcesses(role);
    if (pids.empty()) return "nobody";
    kill(pids[Draw(pids.size())], SIGKILL);
    return role;
  }
  static void Again(Daemon* daemon, const std::function<absl::Status()>& start) {
    daemon->process->Signal(SIGKILL);
    *daemon = Daemon();
    ASSERT_EQ(start(), absl::OkStatus());
  }
  int Draw(size_t below) { return static_cast<int>(random_() % below); }

  const uint32_t seed_ = FromEnvironment("STRATA_SOAK_SEED", 1);
  std::mt19937 random_{seed_};
};

TEST_F(Soak, SyncEndsWithTheSameModel) {
  RunRounds(FromEnvironment("STRATA_SOAK_ROUNDS", 10), "sync {}");
}
TEST_F(Soak, LazyWithoutStalenessEndsWithTheSameModel) {
  RunRounds((FromEnvironment("STRATA_SOAK_ROUNDS", 10) + 1) / 2, "lazy { staleness: 0 }");
}

}  // namespace
}  // namespace strata::tests
