// Servers on three hosts, each of which is taken out of service in turn, and back into it, while a
// job trains whose shards lie on them: every shard moves, again and again. So it is with one that
// is told to end.
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::ContainsRegex;

constexpr int kSteps = 200;
constexpr int kStepMs = 30;  // at least, of a job whose shards move
constexpr int kServers = 3;
constexpr absl::Duration kNotice = absl::Seconds(60);

class ServerDrain : public NetnsTest {
 protected:
  static void TearDownTestSuite() { cluster_.reset(); }
  // All cases share the cluster, which each leaves with all servers in service.
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure() || cluster_ != nullptr) return;
    cluster_ = std::make_unique<NetnsCluster>(NetnsCluster::Options{.nodes = kServers, .slots = 1});
    NetnsCluster::LetUsersOperate();
    ASSERT_EQ(cluster_->StartHead(), absl::OkStatus());
    for (int i = 0; i < kServers; ++i) {
      StartServer(i);
      if (i == 2) continue;
      ASSERT_EQ(cluster_->StartWorker(i), absl::OkStatus());
    }
  }
  // The cluster of a failed case is not reused.
  void TearDown() override {
    if (HasFailure()) TearDownTestSuite();
  }
  static void StartServer(int i) {
    const std::vector<std::string> more = {"--shards", "2", "--notice",
                                           absl::StrCat(absl::ToInt64Seconds(kNotice))};
    ASSERT_EQ(cluster_->StartServer(absl::StrCat("w", i), absl::StrCat("s", i), more),
              absl::OkStatus());
  }

  static proto::Job SomeJob(const std::string& name, const std::string& consistency,
                            uint32_t replicas) {
    proto::Job job = LenetJob(name, 2, 1, kSteps, consistency);
    job.mutable_data()->set_batch_per_rank(4);
    job.set_replicas(replicas);
    auto* delay = job.mutable_debug()->add_delays();
    delay->set_node(0);
    delay->set_delay_ms(kStepMs * (1 + static_cast<int>(replicas)));  // more copies are to move
    return job;
  }

  static bool LiesTwice(const proto::JobStatus& status) {
    return absl::c_all_of(status.shards(), [](const proto::JobShardStatus& shard) {
      return shard.chunks() == 0 || (!shard.backup().empty() && !shard.backup_is_partial());
    });
  }
  static bool IsOn(const proto::JobStatus& status, const std::string& server) {
    return absl::c_any_of(status.shards(), [&](const proto::JobShardStatus& shard) {
      return shard.daemon() == server || shard.backup() == server;
    });
  }

  // The weights by step of a run that nothing disturbs.
  static std::vector<std::string> Undisturbed() {
    if (expected_.empty()) {
      proto::Job job = SomeJob("alone", "sync {}", 0);
      job.mutable_debug()->clear_delays();
      expected_ = Hashes(cluster_->WaitForEnd(Submit(job)).run_dir(), 0);
    }
    EXPECT_EQ(expected_.size(), kSteps + 1u);
    return expected_;
  }
  static void ExpectUndisturbedWeights(JobId id) {
    const proto::JobStatus end = cluster_->WaitForEnd(id);
    EXPECT_EQ(end.state(), proto::FINISHED) << end.reason() << cluster_->CoordinatorLog();
    EXPECT_EQ(Hashes(end.run_dir(), 0), Undisturbed());
    EXPECT_EQ(Hashes(end.run_dir(), 1), Undisturbed());
  }

  static JobId Submit(const proto::Job& job) {
    const auto id = cluster_->client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return JobId();
    cluster_->WaitFor(*id, [](const proto::JobStatus& status) {
      return status.progress().step() >= 20 || control::HasEnded(status.state());
    });
    return *id;
  }
  // Takes one server after the other out of service until the job has ended. Returns how many were
  // empty while it trained.
  static int DrainInTurn(JobId id) {
    int drained = 0;
    const bool has_copies = cluster_->Status(id).job().replicas() > 0;
    for (int turn = 0; cluster_->Status(id).state() == proto::RUNNING; ++turn) {
      const std::string server = absl::StrCat("s", turn % kServers);
      cluster_->Drain(server, proto::DrainRequest::DRAIN);
      const proto::JobStatus left = cluster_->WaitFor(id, [&](const proto::JobStatus& status) {
        EXPECT_TRUE(!has_copies || status.state() != proto::RUNNING || LiesTwice(status))
            << "a shard has one copy";
        return control::HasEnded(status.state()) || !IsOn(status, server) || HasFailure();
      });
      if (left.state() == proto::RUNNING) ++drained;
      cluster_->Drain(server, proto::DrainRequest::UNDO);
      if (HasFailure()) break;
    }
    return drained;
  }

  static inline std::unique_ptr<NetnsCluster> cluster_;
  static inline std::vector<std::string> expected_;
};

TEST_F(ServerDrain, InSyncTheWeightsAreThoseOfAnUndisturbedRun) {
  for (const uint32_t replicas : {0, 1}) {
    SCOPED_TRACE(absl::StrCat("replicas ", replicas));
    const JobId id = Submit(SomeJob(absl::StrCat("moved", replicas), "sync {}", replicas));
    EXPECT_GE(DrainInTurn(id), kServers) << "every shard has moved";
    ExpectUndisturbedWeights(id);
  }
}

TEST_F(ServerDrain, InAsyncTheJobContinues) {
  const JobId id = Submit(SomeJob("moved", "async {}", 0));
  EXPECT_GE(DrainInTurn(id), kServers);
  const proto::JobStatus end = cluster_->WaitForEnd(id);
  EXPECT_EQ(end.state(), proto::FINISHED) << end.reason() << cluster_->CoordinatorLog();
  EXPECT_EQ(end.progress().step(), kSteps);
}

TEST_F(ServerDrain, WhatIsDrainedMayDie) {
  const JobId id = Submit(SomeJob("dies", "sync {}", 0));
  cluster_->Drain("s0", proto::DrainRequest::DRAIN);
  const auto is_empty = [&](const proto::JobStatus& status) {
    return control::HasEnded(status.state()) || !IsOn(status, "s0");
  };
  EXPECT_EQ(cluster_->WaitFor(id, is_empty).state(), proto::RUNNING);
  EXPECT_TRUE(cluster_->Drain("s0", proto::DrainRequest::TELL).drained());
  cluster_->Kill("server s0");
  const proto::JobStatus end = cluster_->WaitForEnd(id);
  EXPECT_EQ(end.state(), proto::FINISHED) << end.reason() << cluster_->CoordinatorLog();
  EXPECT_THAT(cluster_->CoordinatorLog(),
              ContainsRegex(R"(\(dies\): shard [0-9]+ has left server s0)"));
  StartServer(0);
  cluster_->Drain("s0", proto::DrainRequest::UNDO);
}

TEST_F(ServerDrain, AtSigtermWithANoticeItsShardsMoveAndItEndsByItselfWithinThatTime) {
  const JobId id = Submit(SomeJob("leaves", "sync {}", 0));
  ASSERT_TRUE(IsOn(cluster_->Status(id), "s1"));
  const absl::Time told = absl::Now();
  cluster_->Signal("server s1", SIGTERM);
  EXPECT_TRUE(cluster_->WaitForExit("server s1"));
  EXPECT_LT(absl::Now() - told, kNotice);
  const proto::JobStatus left = cluster_->Status(id);
  EXPECT_EQ(left.state(), proto::RUNNING) << "it waits for its shards, not for the job";
  EXPECT_FALSE(IsOn(left, "s1")) << left.ShortDebugString();
  EXPECT_THAT(cluster_->CoordinatorLog(),
              ContainsRegex(R"(\(leaves\): shard [0-9]+ has left server s1)"));
  ExpectUndisturbedWeights(id);
  StartServer(1);
}

}  // namespace
}  // namespace strata::tests
