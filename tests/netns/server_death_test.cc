// Servers on two hosts, one of which is killed while a job trains whose shards lie on both.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 250;
constexpr int kStepMs = 15;  // at least

class ServerDeath : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cluster_.StartHead(), absl::OkStatus());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(cluster_.StartServer(absl::StrCat("w", i), absl::StrCat("s", i), {"--shards", "2"}),
                absl::OkStatus());
      ASSERT_EQ(cluster_.StartWorker(i), absl::OkStatus());
    }
  }

  static proto::Job SomeJob(const std::string& name, const std::string& consistency,
                            uint32_t replicas) {
    proto::Job job = LenetJob(name, 4, 2, kSteps, consistency);
    job.mutable_data()->set_batch_per_rank(2);
    job.set_replicas(replicas);
    auto* delay = job.mutable_debug()->add_delays();
    delay->set_node(0);
    delay->set_delay_ms(kStepMs);
    return job;
  }

  // The weights by step of a run without second copies, which nothing disturbs.
  std::vector<std::string> Undisturbed() {
    static std::vector<std::string> known;  // of all cases
    if (known.empty()) {
      proto::Job job = SomeJob("alone", "sync {}", 0);
      job.mutable_debug()->clear_delays();
      known = Hashes(Run(job, "").run_dir(), 0);
    }
    EXPECT_EQ(known.size(), kSteps + 1u);
    return known;
  }

  // Kills the daemon in the midst of training; empty: nobody.
  proto::JobStatus Run(const proto::Job& job, const std::string& to_kill) {
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    if (!to_kill.empty()) {
      const proto::JobStatus before = cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
        return status.progress().step() >= 40 || control::HasEnded(status.state());
      });
      EXPECT_EQ(before.state(), proto::RUNNING) << before.reason();
      cluster_.Kill(to_kill);
    }
    return cluster_.WaitForEnd(*id);
  }

  // Kills one server after the other, and starts the first again in between, which has nothing
  // then. The second dies once each shard has two copies again.
  proto::JobStatus RunWithoutEither(const proto::Job& job) {
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
      return status.progress().step() >= 20 || control::HasEnded(status.state());
    });
    cluster_.Kill("server s0");
    EXPECT_EQ(cluster_.StartServer("w0", "s0", {"--shards", "2"}), absl::OkStatus());
    const proto::JobStatus again = cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
      const auto lies_twice = [](const proto::JobShardStatus& shard) {
        return shard.daemon() == "s1" && shard.backup() == "s0" && !shard.backup_is_partial();
      };
      return control::HasEnded(status.state()) || absl::c_all_of(status.shards(), lies_twice);
    });
    EXPECT_EQ(again.state(), proto::RUNNING) << again.reason() << cluster_.CoordinatorLog();
    cluster_.Kill("server s1");
    return cluster_.WaitForEnd(*id);
  }

  // Kills both servers at once, once the job has a checkpoint, and starts them again.
  proto::JobStatus RunThroughTheLossOfBoth(const proto::Job& job) {
    const auto id = cluster_.client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    const proto::JobStatus before = cluster_.WaitFor(*id, [](const proto::JobStatus& status) {
      return status.checkpoints().complete() >= 2 || control::HasEnded(status.state());
    });
    EXPECT_EQ(before.state(), proto::RUNNING) << before.reason();
    for (const char* server : {"server s0", "server s1"}) cluster_.Kill(server);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cluster_.StartServer(absl::StrCat("w", i), absl::StrCat("s", i), {"--shards", "2"}),
                absl::OkStatus());
    }
    return cluster_.WaitForEnd(*id);
  }

  NetnsCluster cluster_{{}};
};

TEST_F(ServerDeath, InSyncTheWeightsAreThoseOfAnUndisturbedRun) {
  const std::vector<std::string> expected = Undisturbed();
  proto::Job copied = SomeJob("twice", "sync {}", 1);
  copied.mutable_debug()->clear_delays();
  const proto::JobStatus twice = Run(copied, "");
  EXPECT_EQ(Hashes(twice.run_dir(), 0), expected) << twice.reason();
  const proto::JobStatus killed = Run(SomeJob("killed", "sync {}", 1), "server s0");
  EXPECT_EQ(killed.state(), proto::FINISHED) << killed.reason() << cluster_.CoordinatorLog();
  EXPECT_EQ(Hashes(killed.run_dir(), 0), expected);
  EXPECT_EQ(Hashes(killed.run_dir(), 1), expected);
  EXPECT_THAT(cluster_.CoordinatorLog(), HasSubstr("of its shards go on with one copy"));
}

TEST_F(ServerDeath, WhoComesBackIsFilledAndTakesOverInTurn) {
  const std::vector<std::string> expected = Undisturbed();
  proto::Job job = SomeJob("killed", "sync {}", 1);
  job.mutable_debug()->mutable_delays(0)->set_delay_ms(2 * kStepMs);  // two deaths take longer
  const proto::JobStatus killed = RunWithoutEither(job);
  EXPECT_EQ(killed.state(), proto::FINISHED) << killed.reason() << cluster_.CoordinatorLog();
  EXPECT_EQ(Hashes(killed.run_dir(), 0), expected);
}

TEST_F(ServerDeath, OfBothAtOnceSendsTheJobBackToItsCheckpoint) {
  const std::vector<std::string> expected = Undisturbed();
  ASSERT_EQ(expected.size(), kSteps + 1u);
  proto::Job job = SomeJob("killed", "sync {}", 1);
  const std::string dir = TestDir() + "/checkpoints";
  std::filesystem::remove_all(dir);  // of an earlier run
  job.mutable_checkpoint()->set_dir(dir);
  job.mutable_checkpoint()->set_every_steps(20);
  job.mutable_restart()->set_attempts(3);
  const proto::JobStatus killed = RunThroughTheLossOfBoth(job);
  ASSERT_EQ(killed.state(), proto::FINISHED) << killed.reason() << cluster_.CoordinatorLog();
  ASSERT_EQ(killed.restarts_size(), 1) << cluster_.CoordinatorLog();
  EXPECT_THAT(killed.restarts(0).reason(), HasSubstr("it had the only copy of shard"));
  const uint64_t step = killed.restarts(0).step();
  EXPECT_GE(step, 40u);
  ASSERT_LT(step, uint64_t{kSteps});
  const std::vector<std::string> rest(expected.begin() + static_cast<ptrdiff_t>(step),
                                      expected.end());
  for (const int node : {0, 1}) EXPECT_EQ(Hashes(killed.run_dir(), node), rest);
}

TEST_F(ServerDeath, InAsyncTheJobContinues) {
  const proto::JobStatus killed = Run(SomeJob("killed", "async {}", 1), "server s1");
  EXPECT_EQ(killed.state(), proto::FINISHED) << killed.reason() << cluster_.CoordinatorLog();
  EXPECT_EQ(killed.progress().step(), kSteps);
}

TEST_F(ServerDeath, WithoutASecondCopyTheJobFails) {
  const proto::JobStatus killed = Run(SomeJob("killed", "sync {}", 0), "server s1");
  EXPECT_EQ(killed.state(), proto::FAILED);
  EXPECT_THAT(killed.reason(), HasSubstr("server s1 is lost"));
}

}  // namespace
}  // namespace strata::tests
