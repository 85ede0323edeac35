// A soak: jobs of which random processes are killed at random times, again and again. Each must end
// finished, and its model must equal the undisturbed one's. Not a part of the normal tests:
//
//   bazel run //tests/e2e:resume_soak                    10 rounds in each mode, 6 for each role
//   STRATA_SOAK_ROUNDS=50 STRATA_SOAK_SEED=7 bazel run //tests/e2e:resume_soak
//   bazel run //tests/e2e:resume_soak -- --gtest_filter='*Role*'
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
#include "absl/time/clock.h"
#include "common/os/environment.h"
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

const char* const kRoles[] = {"rank", "aggregator", "server", "worker", "coordinator"};

proto::Job SoakJob(const std::string& folder, const std::string& mode) {
  proto::Job job = CheckpointedJob(folder, 2, kSteps);
  if (mode == "ring" || mode == "halving") {
    job.set_exchange(proto::Job::RING);
    job.mutable_all_reduce()->set_algorithm(mode == "ring" ? proto::AllReduce::RING
                                                           : proto::AllReduce::HALVING_DOUBLING);
  } else if (mode == "lazy(0)") {
    job.mutable_consistency()->mutable_lazy()->set_staleness(0);
  } else {
    job.mutable_consistency()->set_preset(mode);
  }
  return job;
}

class Soak : public Checkpointed {
 protected:
  void Begin(const std::string& mode) {
    mode_ = mode;
    Start({.servers = 2, .shards = 1, .nodes = 2, .slots = 2});
    undisturbed_ = Model(Run(SoakJob("undisturbed", mode_)));
  }
  // Runs one job, and `disturb` meanwhile, which returns what it did.
  void RunRound(int round, int rounds, const std::function<std::string()>& disturb) {
    const std::string folder = absl::StrCat("round-", round);
    proto::Job job = SoakJob(folder, mode_);
    GoOnByItself(&job);
    job.mutable_restart()->set_attempts(50);
    SlowDown(&job, 5);
    const JobId id = Submit(job);
    // Before it has trained, a failure is the job's own fault.
    cluster_->WaitForStep(id, 1);
    const std::string killed = disturb();
    const proto::JobStatus status = cluster_->WaitForEnd(id, absl::Seconds(90));
    const bool is_equal = status.state() == proto::FINISHED && Model(status) == undisturbed_;
    EXPECT_TRUE(is_equal) << "round " << round << killed << ": " << status.ShortDebugString();
    ExpectWindows(status, kSteps, mode_ == "sync");
    equal_ += is_equal ? 1 : 0;
    restarts_ += status.restarts_size();
    std::printf("%s, round %d of %d:%s: %d restarts, %s\n", mode_.c_str(), round + 1, rounds,
                killed.c_str(), status.restarts_size(), is_equal ? "equal" : "DIFFERENT");
    std::fflush(stdout);
    std::filesystem::remove_all(TestDir() + "/" + folder);
  }
  void End(const std::string& what, int rounds) {
    std::printf("%s: %d of %d equal, %d restarts, seed %u\n", what.c_str(), equal_, rounds,
                restarts_, seed_);
    cluster_->StopAll();
    cluster_.reset();
    std::filesystem::remove_all(TestDir());
  }
  // Returns the name of the killed process. A daemon is restarted.
  std::string KillOneLater(const std::string& role) {
    const int ms = Draw(1500);
    WaitUntil([until = absl::Now() + absl::Milliseconds(ms)] { return absl::Now() >= until; });
    const int i = Draw(2);
    std::string who = role;
    if (role == "server") {
      Again(&cluster_->server(i), [&] { return cluster_->StartServer(i); });
    } else if (role == "worker") {
      Again(&cluster_->worker(i), [&] { return cluster_->StartWorker(i); });
    } else if (role == "coordinator") {
      Again(&cluster_->coordinator(), [&] { return cluster_->StartCoordinator(); });
    } else {
      who = KillOneOf(role);
    }
    return absl::StrCat(" ", who, "@", ms);
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
  std::string mode_, undisturbed_;
  int equal_ = 0, restarts_ = 0;
};

class ModeSoak : public Soak, public testing::WithParamInterface<const char*> {};

TEST_P(ModeSoak, TwoRandomDeathsChangeNoBit) {
  const int rounds = static_cast<int>(FromEnvironment("STRATA_SOAK_ROUNDS", 10));
  Begin(GetParam());
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    RunRound(round, rounds, [&] {
      std::string killed;
      for (int i = 0; i < 2; ++i) absl::StrAppend(&killed, KillOneLater(kRoles[Draw(5)]));
      return killed;
    });
  }
  End(mode_, rounds);
}
INSTANTIATE_TEST_SUITE_P(Modes, ModeSoak,
                         testing::Values("sync", "lazy(0)", "ring", "halving", "delay1", "local(4)",
                                         "diloco(8)"));

class RoleSoak : public Soak, public testing::WithParamInterface<const char*> {};

TEST_P(RoleSoak, ADeathOfThisRoleChangesNoBit) {
  const int rounds = static_cast<int>(3 * FromEnvironment("STRATA_SOAK_ROUNDS", 10) / 5);
  Begin("sync");
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    RunRound(round, rounds, [&] { return KillOneLater(GetParam()); });
  }
  End(GetParam(), rounds);
}
INSTANTIATE_TEST_SUITE_P(Roles, RoleSoak, testing::ValuesIn(kRoles));

}  // namespace
}  // namespace strata::tests
