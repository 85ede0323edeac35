// A job in virtual time has the same weights at every step as on a cluster, bit for bit, wherever
// they do not depend on the order of arrival.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "compare/virtual_time/virtual_fixture.h"
#include "compare/virtual_time/virtual_run.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

constexpr int kSteps = 20;

// As RUN_DIR/weights.node-N.hashes has them, of node 0 and 1; ranks at different speeds, behind a
// slow network.
std::map<uint32_t, std::vector<std::string>> HashesInVirtualTime(proto::Job job) {
  FillDefaults(&job);
  EXPECT_EQ(ValidateJob(job), absl::OkStatus());
  const compare::ClusterFile cluster = compare::ParseTestCluster(
      "nodes { count: 2 ranks: 2 compute { log_normal { median_ms: 2 sigma: 0.5 } } "
      "link { gbit_per_s: 0.2 latency_us: 100 jitter_us: 50 } } "
      "servers { count: 2 shards: 2 link { gbit_per_s: 0.2 latency_us: 100 jitter_us: 50 } }");
  std::map<uint32_t, std::vector<std::string>> hashes;
  compare::VirtualRunOptions options;
  options.threads = 2;
  options.on_weights = [&](uint32_t node, uint64_t step, absl::Span<const float> arena) {
    const XXH64_hash_t hash = XXH3_64bits(arena.data(), arena.size() * sizeof(float));
    const std::string when = step == kSteps ? "final" : std::to_string(step);
    hashes[node].push_back(absl::StrFormat("%s %016x", when, hash));
  };
  const auto outcome = compare::RunVirtually({.mode = "", .job = job}, cluster, options);
  EXPECT_EQ(outcome.record.failure(), "");
  return hashes;
}

void ExpectTheSame(Cluster& cluster, const proto::Job& job) {
  const proto::JobStatus live = cluster.RunToEnd(job);
  const auto hashes = HashesInVirtualTime(job);
  ASSERT_EQ(hashes.size(), 2u) << job.name();
  for (const auto& [node, lines] : hashes) {
    EXPECT_EQ(lines.size(), kSteps + 1u) << job.name();
    EXPECT_EQ(lines, Hashes(live.run_dir(), static_cast<int>(node))) << job.name();
  }
}

TEST(VirtualTime, SyncAndWhatElseIsInStepHaveTheBitsOfALiveCluster) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  ExpectTheSame(cluster, LenetJob("sync", 4, 2, kSteps));
  ExpectTheSame(cluster, LenetJob("delay1", 4, 2, kSteps, "preset: \"delay1\""));
  ExpectTheSame(cluster, LenetJob("diloco", 4, 2, kSteps, "preset: \"diloco(3)\""));
}

TEST(VirtualTime, ARingHasTheBitsOfALiveOne) {
  Cluster cluster({1, 1, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("ring", 4, 2, kSteps);
  job.set_exchange(proto::Job::RING);
  job.mutable_all_reduce()->set_algorithm(proto::AllReduce::RING);
  ExpectTheSame(cluster, job);
}

// LARS and clipping need norms of all weights, and nodes that apply the optimizer themselves.
TEST(VirtualTime, LarsAndClippingHaveTheBitsOfALiveCluster) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("lars", 4, 2, kSteps);
  job.mutable_optimizer()->mutable_lars()->set_coefficient(0.1f);
  job.mutable_schedule()->set_base_batch(16);
  job.mutable_schedule()->set_warmup_epochs(0.5f);
  ExpectTheSame(cluster, job);
  job.set_name("clipped");
  job.mutable_optimizer()->mutable_momentum_sgd();
  job.mutable_optimizer()->set_clip_norm(0.5f);
  ExpectTheSame(cluster, job);
  job.set_name("clipped-delay1");
  job.mutable_consistency()->set_preset("delay1");
  ExpectTheSame(cluster, job);
}

TEST(VirtualTime, LarsInARingHasTheBitsOfServers) {
  Cluster cluster({1, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("servers", 4, 2, kSteps);
  job.mutable_optimizer()->mutable_lars()->set_coefficient(0.1f);
  job.mutable_optimizer()->set_clip_norm(0.5f);
  const auto servers = HashesInVirtualTime(job);
  job.set_name("ring");
  job.set_exchange(proto::Job::RING);
  job.mutable_all_reduce()->set_algorithm(proto::AllReduce::RING);
  ExpectTheSame(cluster, job);
  EXPECT_EQ(HashesInVirtualTime(job), servers) << "of two nodes, the same order";
}

TEST(VirtualTime, StatisticsOfTheLastBatchHaveTheBitsOfALiveCluster) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("last-batch", 4, 2, kSteps);
  job.mutable_model()->set_zoo("cnn");
  job.mutable_model()->set_batch_norm(proto::Model::LAST_BATCH);
  // From RMSprop to SGD within these steps.
  proto::RmspropWarmup* warmup = job.mutable_optimizer()->mutable_rmsprop_warmup();
  warmup->set_center_epochs(0.2f);
  warmup->set_width_epochs(0.4f);
  ExpectTheSame(cluster, job);
  job.set_name("last-batch-lars");
  job.mutable_optimizer()->mutable_lars();
  ExpectTheSame(cluster, job);
}

// With codecs, the part left out of one message is sent with the next.
TEST(VirtualTime, EncodedGradientsHaveTheBitsOfALiveCluster) {
  Cluster cluster({2, 2, 2, 2});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job job = LenetJob("int8", 4, 2, kSteps);
  job.mutable_push()->set_codec(proto::Encoding::INT8);
  job.mutable_pull()->set_codec(proto::Encoding::FP16);
  ExpectTheSame(cluster, job);
}

}  // namespace
}  // namespace strata::tests
