// Lazy and async on the live system, and jobs of different modes at the same time.
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

// Node 1 sleeps 8 ms in each step, about as long as it computes.
constexpr char kSlowNode[] = "debug { delays { node: 1 delay_ms: 8 } }";

std::string FashionLenet(const std::string& name, const std::string& consistency, int ranks,
                         double lr, const std::string& more) {
  return "name: '" + name + "' model { zoo: 'lenet5' } data { idx { dir: '" + kFashionMnist +
         "' } batch_per_rank: 64 } schedule { base_lr: " + std::to_string(lr) +
         " } ranks: " + std::to_string(ranks) + " ranks_per_node: 1 epochs: 5 consistency { " +
         consistency + " } chunk_elements: 1024 " + more;
}

TEST(Modes, AsyncWithASlowNodeIsStaleAndStillLearns) {
  Cluster cluster({2, 2, 2, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::JobStatus status =
      cluster.RunToEnd(JobFromText(FashionLenet("async", "async { damping: INVERSE_STALENESS }", 2,
                                                0.02, kSlowNode)),
                       absl::Minutes(5));
  auto metrics = Metrics(status.run_dir());
  auto staleness = StalenessCounts(metrics);
  ASSERT_GT(staleness.size(), 1u);
  EXPECT_GT(std::accumulate(staleness.begin() + 1, staleness.end(), uint64_t{0}), 0u);
  EXPECT_GE(FinalAccuracy(metrics), 0.84);
  EXPECT_EQ(status.mode(), "async(inverse staleness)");
}

TEST(Modes, LazyIsNeverStalerThanItsBoundAndReachesIt) {
  Cluster cluster({2, 2, 2, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const char* apply : {"PER_CLOCK", "ON_ARRIVAL"}) {
    proto::Job job = LenetJob(std::string("lazy-") + apply, 2, 1, 60,
                              std::string("lazy { staleness: 3 apply: ") + apply + " }");
    job.mutable_debug()->clear_hash_weights();
    auto* delay = job.mutable_debug()->add_delays();
    delay->set_node(1);
    delay->set_delay_ms(20);
    proto::JobStatus status = cluster.RunToEnd(job);
    auto staleness = StalenessCounts(Metrics(status.run_dir()));
    uint64_t stale = 0;
    for (size_t s = 0; s < staleness.size(); ++s) {
      if (s > 0 && s <= 3) stale += staleness[s];
      if (s > 3) {
        EXPECT_EQ(staleness[s], 0u) << apply << " staleness " << s;
      }
    }
    EXPECT_GT(stale, 0u) << apply;
  }
}

TEST(Modes, ASyncAndAnAsyncJobRunTogether) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  // The sync job runs alone first, for its weights.
  proto::Job sync = LenetJob("sync-alone", 2, 1, 40);
  auto alone = Hashes(cluster.RunToEnd(sync).run_dir(), 0);
  sync.set_name("sync-together");
  proto::Job async = JobFromText(R"(
      name: "async-together" model { zoo: "mlp" }
      data { synthetic {} batch_per_rank: 16 }
      ranks: 2 ranks_per_node: 1 max_steps: 1000000
      optimizer { sgd {} } schedule { base_lr: 0.005 }
      consistency { async {} } chunk_elements: 1024)");
  auto async_id = cluster.Submit(async);
  ASSERT_TRUE(async_id.ok()) << async_id.status();
  ASSERT_EQ(cluster.WaitForStep(*async_id, 1).state(), proto::RUNNING);
  auto sync_id = cluster.Submit(sync);
  ASSERT_TRUE(sync_id.ok()) << sync_id.status();
  proto::JobStatus sync_status = cluster.WaitForEnd(*sync_id);
  EXPECT_EQ(sync_status.state(), proto::FINISHED) << sync_status.reason();
  proto::JobStatus meanwhile = cluster.Status(*async_id);
  EXPECT_EQ(meanwhile.state(), proto::RUNNING) << meanwhile.reason();
  EXPECT_EQ(meanwhile.mode(), "async");
  EXPECT_EQ(sync_status.mode(), "sync");
  EXPECT_EQ(Hashes(sync_status.run_dir(), 0), alone);
  const uint64_t step = meanwhile.progress().step();
  EXPECT_EQ(cluster.WaitForStep(*async_id, step + 50).state(), proto::RUNNING);
  EXPECT_EQ(cluster.client().Cancel(*async_id), absl::OkStatus());
  EXPECT_EQ(cluster.WaitForEnd(*async_id).state(), proto::CANCELLED);
}

uint64_t BytesPushed(const std::vector<nlohmann::json>& metrics) {
  uint64_t bytes = 0;
  for (const nlohmann::json& window : metrics) bytes += window.at("bytes_pushed").get<uint64_t>();
  return bytes;
}

TEST(Modes, LocalStepsAndDoubleBufferingHaveTheSameBitsOnEveryRun) {
  Cluster cluster({2, 2, 2, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  uint64_t sync_bytes = 0;
  for (const char* preset : {"sync", "delay1", "local(5)", "diloco(8)"}) {
    proto::Job job = LenetJob("one", 2, 1, 40, std::string("preset: '") + preset + "'");
    const proto::JobStatus one = cluster.RunToEnd(job);
    job.set_name("two");
    job.set_window(2);
    auto* delay = job.mutable_debug()->add_delays();
    delay->set_node(1);
    delay->set_delay_ms(5);
    const proto::JobStatus two = cluster.RunToEnd(job);
    EXPECT_EQ(Hashes(one.run_dir(), 0), Hashes(two.run_dir(), 0)) << preset;
    EXPECT_EQ(Hashes(two.run_dir(), 0).back(), Hashes(two.run_dir(), 1).back()) << preset;
    const uint64_t bytes = BytesPushed(Metrics(one.run_dir()));
    if (std::string(preset) == "sync") sync_bytes = bytes;
    if (std::string(preset) == "local(5)") {
      EXPECT_EQ(bytes, sync_bytes / 5);
    }
    if (std::string(preset) == "diloco(8)") {
      EXPECT_EQ(bytes, sync_bytes / 8);
      EXPECT_EQ(one.mode(), "diloco(8)");
    }
  }
}

TEST(Modes, LocalStepsOverARingLearnWithAFewOfItsBytes) {
  Cluster cluster({1, 1, 2, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job =
      JobFromText(FashionLenet("ring", "preset: 'local(16)'", 2, 0.05, "exchange: RING"));
  job.set_epochs(2);
  const proto::JobStatus status = cluster.RunToEnd(job, absl::Minutes(3));
  EXPECT_GE(FinalAccuracy(Metrics(status.run_dir())), 0.80);
}

}  // namespace
}  // namespace strata::tests
