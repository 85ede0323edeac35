// Hosts as network namespaces: defaults choose the right interface, and a link that is down for 3 s
// costs time and nothing else.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 200;         // of jobs that stand still in the break
constexpr int kStepsBesides = 400;  // of those that do not: so many that they outlast it
constexpr int kStepMs = 15;         // at least
constexpr absl::Duration kBreak = absl::Seconds(3);

proto::Job QuickLenet(const std::string& name, const std::string& consistency = "sync {}",
                      int steps = kSteps) {
  proto::Job job = LenetJob(name, 2, 1, steps, consistency);
  job.mutable_data()->set_batch_per_rank(4);
  return job;
}
proto::Job SlowLenet(const std::string& name, const std::string& consistency, int steps = kSteps) {
  proto::Job job = QuickLenet(name, consistency, steps);
  auto* delay = job.mutable_debug()->add_delays();
  delay->set_node(0);
  delay->set_delay_ms(kStepMs);
  return job;
}

class LinkDown : public NetnsTest {
 protected:
  static void TearDownTestSuite() { cluster_.reset(); }
  // All cases share the cluster, which each leaves with its cables plugged in.
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure() || cluster_ != nullptr) return;
    cluster_ = std::make_unique<NetnsCluster>(NetnsCluster::Options{.slots = 1});
    ASSERT_EQ(cluster_->Start(), absl::OkStatus());
  }
  // The cluster of a failed case is not reused.
  void TearDown() override {
    if (HasFailure()) TearDownTestSuite();
  }

  proto::JobStatus RunToEnd(const proto::Job& job, const std::string& host_to_cut) {
    const auto id = cluster_->client().Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return {};
    if (!host_to_cut.empty()) Cut(*id, host_to_cut);
    const proto::JobStatus status = cluster_->WaitForEnd(*id);
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_->CoordinatorLog();
    EXPECT_EQ(status.progress().step(), job.max_steps());
    return status;
  }

  // Takes the link down in the midst of training, for 3 s.
  void Cut(JobId job, const std::string& host) {
    const proto::JobStatus before = cluster_->WaitFor(job, [](const proto::JobStatus& status) {
      return status.progress().step() >= 40 || control::HasEnded(status.state());
    });
    ASSERT_EQ(before.state(), proto::RUNNING) << before.reason();
    ASSERT_EQ(cluster_->network().SetLink(host, false), absl::OkStatus());
    if (host == "head") {  // who cannot be asked now
      absl::SleepFor(kBreak);
    } else {
      absl::SleepFor(kBreak / 2);
      const uint64_t step = cluster_->Status(job).progress().step();
      absl::SleepFor(kBreak / 2);
      const proto::JobStatus after = cluster_->Status(job);
      EXPECT_EQ(after.state(), proto::RUNNING) << after.reason();
      // A job that waits for the host stands still; else it would have gone 100 steps.
      if (before.mode() != "async") {
        EXPECT_EQ(after.progress().step(), step) << host;
      }
    }
    ASSERT_EQ(cluster_->network().SetLink(host, true), absl::OkStatus());
  }

  static inline std::unique_ptr<NetnsCluster> cluster_;
};

TEST_F(LinkDown, DefaultsChooseTheInterfaceThatLeadsToTheCoordinator) {
  EXPECT_EQ(ValueIn(cluster_->ready_line("server s0"), "address"), "10.77.0.1");
  EXPECT_EQ(ValueIn(cluster_->ready_line("worker w0"), "address"), "10.77.0.11");
  EXPECT_EQ(ValueIn(cluster_->ready_line("worker w1"), "address"), "10.77.0.12");
  EXPECT_THAT(cluster_->CoordinatorLog(), HasSubstr("other hosts reach this coordinator at"));
  EXPECT_THAT(cluster_->CoordinatorLog(), HasSubstr("10.77.0.1:7070 (eth0)"));
}

TEST_F(LinkDown, ASyncJobEndsWithTheWeightsOfAnUndisturbedRunWhoeverWasCutOff) {
  const auto undisturbed = RunToEnd(QuickLenet("undisturbed"), "");
  const std::vector<std::string> expected = Hashes(undisturbed.run_dir(), 0);
  ASSERT_EQ(expected.size(), kSteps + 1u);
  const auto worker_cut = RunToEnd(SlowLenet("worker-cut", "sync {}"), "w1");
  EXPECT_EQ(Hashes(worker_cut.run_dir(), 0), expected);
  EXPECT_EQ(Hashes(worker_cut.run_dir(), 1), expected);
  EXPECT_EQ(worker_cut.nodes(0).daemon(), "w0");
  EXPECT_EQ(worker_cut.nodes(1).daemon(), "w1");
  // The servers and the coordinator.
  const auto head_cut = RunToEnd(SlowLenet("head-cut", "sync {}"), "head");
  EXPECT_EQ(Hashes(head_cut.run_dir(), 0), expected);
}

TEST_F(LinkDown, ARingEndsWithTheWeightsOfAnUndisturbedRun) {
  const auto ring = [](proto::Job job) {
    job.set_exchange(proto::Job::RING);
    job.mutable_all_reduce()->set_algorithm(proto::AllReduce::RING);
    return job;
  };
  const std::vector<std::string> expected =
      Hashes(RunToEnd(ring(QuickLenet("ring-undisturbed")), "").run_dir(), 0);
  ASSERT_EQ(expected.size(), kSteps + 1u);
  const auto cut = RunToEnd(ring(SlowLenet("ring-cut", "sync {}")), "w1");
  EXPECT_EQ(Hashes(cut.run_dir(), 0), expected);
  EXPECT_EQ(Hashes(cut.run_dir(), 1), expected);
}

// The ranks do not get ready before the break, and do in it.
TEST_F(LinkDown, AJobThatStartsGoesOnWhenAWorkerOrTheServersAndTheCoordinatorWereCutOff) {
  for (const char* host : {"w1", "head"}) {
    const std::string go = absl::StrCat(TestDir(), "/go-", host);
    const std::string program = std::filesystem::absolute("examples/linear/linear");
    proto::Job job;
    job.set_name(absl::StrCat("starts-", host));
    job.mutable_program()->set_path("/bin/sh");
    job.mutable_program()->add_args("-c");
    job.mutable_program()->add_args(
        absl::StrCat("while [ ! -e ", go, " ]; do sleep 0.1; done; exec ", program, " \"$0\""));
    job.mutable_program()->add_args("{launch}");
    job.mutable_optimizer()->mutable_sgd();
    job.mutable_schedule()->set_base_lr(0.1);
    job.mutable_consistency()->mutable_sync();
    job.set_ranks(2);
    job.set_ranks_per_node(1);
    const auto id = cluster_->client().Submit(job);
    ASSERT_TRUE(id.ok()) << id.status();
    cluster_->WaitFor(*id, [](const auto& status) { return status.state() != proto::QUEUED; });
    ASSERT_EQ(cluster_->network().SetLink(host, false), absl::OkStatus());
    std::ofstream(go) << "now";
    absl::SleepFor(kBreak);
    ASSERT_EQ(cluster_->network().SetLink(host, true), absl::OkStatus());
    const proto::JobStatus status = cluster_->WaitForEnd(*id);
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason() << cluster_->CoordinatorLog();
  }
}

TEST_F(LinkDown, LazyAndAsyncJobsGoOnAndFinish) {
  RunToEnd(SlowLenet("lazy", "lazy { staleness: 3 }"), "w1");
  RunToEnd(SlowLenet("async", "async {}", kStepsBesides), "w1");
}

// The moment within a heartbeat's interval at which the break begins is another for each worker.
TEST(ManyLinksDown, NoWorkerIsTakenForLost) {
  constexpr int kWorkers = 15;
  if (absl::IsPermissionDenied(OwnNetwork())) GTEST_SKIP() << OwnNetwork().message();
  NetnsCluster cluster({.servers = 0, .nodes = kWorkers, .slots = 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (int round = 0; round < 2; ++round) {
    std::vector<absl::Time> down_at;
    for (int i = 0; i < kWorkers; ++i) {
      ASSERT_EQ(cluster.network().SetLink(absl::StrCat("w", i), false), absl::OkStatus());
      down_at.push_back(absl::Now());
    }
    for (int i = 0; i < kWorkers; ++i) {
      absl::SleepFor(down_at[i] + kBreak - absl::Now());
      ASSERT_EQ(cluster.network().SetLink(absl::StrCat("w", i), true), absl::OkStatus());
    }
    absl::SleepFor(absl::Seconds(7));  // long enough for a worker to be missed
  }
  EXPECT_THAT(cluster.CoordinatorLog(), ::testing::Not(HasSubstr("is lost")));
}

}  // namespace
}  // namespace strata::tests
