// Servers on two hosts, each with the second copies of the other's shards, one of which stands
// still while a job trains, or hears nothing of the other one or of the coordinator. It lives all
// the while, so that what it last knew may not count any more when it is back.
#include <signal.h>

#include <functional>
#include <memory>
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

constexpr int kSteps = 300;
constexpr int kStepMs = 15;      // at least, of a job that is disturbed
constexpr int kLongStepMs = 45;  // of one that trains on while a server is missed
constexpr int kFirstServer = 3;  // number of the host of s0

class ServerCutOff : public NetnsTest {
 protected:
  using Wanted = std::function<bool(const proto::JobStatus&)>;

  static void TearDownTestSuite() {
    cluster_.reset();
    expected_.clear();
  }
  // All cases share the cluster, which each leaves whole, and the run that nothing disturbs.
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure() || cluster_ != nullptr) return;
    cluster_ = std::make_unique<NetnsCluster>(NetnsCluster::Options{.servers = 0, .slots = 1});
    ASSERT_EQ(cluster_->StartHead(), absl::OkStatus());
    for (int i = 0; i < 2; ++i) {
      const std::string host = absl::StrCat("h", i);
      ASSERT_EQ(network().AddHost(host, kFirstServer + i), absl::OkStatus());
      ASSERT_EQ(cluster_->StartServer(host, absl::StrCat("s", i), {"--shards", "2"}),
                absl::OkStatus());
      ASSERT_EQ(cluster_->StartWorker(i), absl::OkStatus());
    }
    proto::Job job = SomeJob("undisturbed");
    job.clear_replicas();
    job.mutable_debug()->clear_delays();
    const auto id = cluster_->client().Submit(job);
    ASSERT_TRUE(id.ok()) << id.status();
    const proto::JobStatus end = cluster_->WaitForEnd(*id);
    expected_ = Hashes(end.run_dir(), 0);
    ASSERT_EQ(expected_.size(), kSteps + 1u) << end.reason();
  }
  // The cluster of a failed case is not reused.
  void TearDown() override {
    if (HasFailure()) TearDownTestSuite();
  }

  static proto::Job SomeJob(const std::string& name) {
    proto::Job job = LenetJob(name, 2, 1, kSteps);
    job.mutable_data()->set_batch_per_rank(4);
    job.set_replicas(1);
    auto* delay = job.mutable_debug()->add_delays();
    delay->set_node(0);
    delay->set_delay_ms(kStepMs);
    return job;
  }
  static Network& network() { return cluster_->network(); }

  // Submits a job, and waits until it trains; its shards lie on both servers, each twice.
  static void Begin(const std::string& name, JobId* id, int step_ms = kStepMs) {
    proto::Job job = SomeJob(name);
    job.mutable_debug()->mutable_delays(0)->set_delay_ms(step_ms);
    const auto submitted = cluster_->client().Submit(job);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    *id = *submitted;
    const proto::JobStatus status = WaitWhileItTrains(*id, [](const proto::JobStatus& status) {
      return status.progress().step() >= 20 && LiesTwice(status);
    });
    for (const char* server : {"s0", "s1"}) {
      ASSERT_TRUE(absl::c_any_of(status.shards(), [&](const proto::JobShardStatus& shard) {
        return shard.daemon() == server;
      })) << server;
    }
  }
  static proto::JobStatus WaitWhileItTrains(JobId id, const Wanted& wanted) {
    const proto::JobStatus status = cluster_->WaitFor(id, [&](const proto::JobStatus& status) {
      return control::HasEnded(status.state()) || wanted(status);
    });
    EXPECT_EQ(status.state(), proto::RUNNING) << status.reason() << cluster_->CoordinatorLog();
    return status;
  }
  static bool LiesTwice(const proto::JobStatus& status) {
    return absl::c_all_of(status.shards(), [](const proto::JobShardStatus& shard) {
      return !shard.backup().empty() && !shard.backup_is_partial();
    });
  }
  static bool HasOneCopy(const proto::JobStatus& status) {
    return absl::c_any_of(status.shards(),
                          [](const auto& shard) { return shard.backup().empty(); });
  }
  static bool IsLedBy(const proto::JobStatus& status, const std::string& server) {
    return absl::c_all_of(status.shards(),
                          [&](const auto& shard) { return shard.daemon() == server; });
  }

  // s0 has been taken for lost: the other one has all shards until it is back, and then it has
  // their second copies.
  static void ExpectSecondCopiesOnceBack(JobId id, const std::function<void()>& bring_back) {
    const proto::JobStatus lost =
        WaitWhileItTrains(id, [](const auto& status) { return IsLedBy(status, "s1"); });
    const uint64_t step = lost.progress().step();
    EXPECT_TRUE(HasOneCopy(lost)) << lost.ShortDebugString();
    bring_back();
    const proto::JobStatus whole = WaitWhileItTrains(id, [&](const proto::JobStatus& status) {
      return LiesTwice(status) && status.progress().step() > step + 10;
    });
    EXPECT_TRUE(IsLedBy(whole, "s1")) << whole.ShortDebugString();
  }
  static void ExpectUndisturbedWeights(JobId id) {
    const proto::JobStatus end = cluster_->WaitForEnd(id);
    EXPECT_EQ(end.state(), proto::FINISHED) << end.reason() << cluster_->CoordinatorLog();
    EXPECT_EQ(Hashes(end.run_dir(), 0), expected_);
    EXPECT_EQ(Hashes(end.run_dir(), 1), expected_);
  }

  static inline std::unique_ptr<NetnsCluster> cluster_;
  static inline std::vector<std::string> expected_;  // the weights by step
};

TEST_F(ServerCutOff, ByStandingStillPastItsLossChangesNoWeightAndHasSecondCopiesOnceItGoesOn) {
  JobId id;
  ASSERT_NO_FATAL_FAILURE(Begin("stopped", &id));
  cluster_->Signal("server s0", SIGSTOP);
  ExpectSecondCopiesOnceBack(id, [] { cluster_->Signal("server s0", SIGCONT); });
  ExpectUndisturbedWeights(id);
}

// A third server is there to have the copies that the two cannot give each other.
TEST_F(ServerCutOff, FromTheOtherCopiesGivesThemUpForOthersElsewhere) {
  ASSERT_EQ(network().AddHost("h2", kFirstServer + 2), absl::OkStatus());
  ASSERT_EQ(cluster_->StartServer("h2", "s2", {"--shards", "2"}), absl::OkStatus());
  JobId id;
  ASSERT_NO_FATAL_FAILURE(Begin("copies-apart", &id));
  const auto is_on_s2 = [](const proto::JobShardStatus& shard) {
    return shard.daemon() == "s2" || shard.backup() == "s2";
  };
  const proto::JobStatus before = cluster_->Status(id);
  ASSERT_FALSE(absl::c_all_of(before.shards(), is_on_s2)) << before.ShortDebugString();
  ASSERT_EQ(network().Part("h0", "h1"), absl::OkStatus());
  // A shard with nothing to send when the two were parted is given up for others only in the step
  // after, in which the others have theirs.
  WaitWhileItTrains(id, [&](const proto::JobStatus& status) {
    return LiesTwice(status) && absl::c_all_of(status.shards(), is_on_s2);
  });
  ASSERT_EQ(network().Join("h0", "h1"), absl::OkStatus());
  ExpectUndisturbedWeights(id);
  cluster_->Signal("server s2", SIGTERM);
  EXPECT_TRUE(cluster_->WaitForExit("server s2"));
}

TEST_F(ServerCutOff, FromTheCoordinatorPastItsLossChangesNoWeightAndHasSecondCopiesOnceItIsBack) {
  JobId id;
  ASSERT_NO_FATAL_FAILURE(Begin("coordinator-apart", &id, kLongStepMs));
  ASSERT_EQ(network().Part("h0", "head"), absl::OkStatus());
  ExpectSecondCopiesOnceBack(id, [] { EXPECT_EQ(network().Join("h0", "head"), absl::OkStatus()); });
  ExpectUndisturbedWeights(id);
}

}  // namespace
}  // namespace strata::tests
