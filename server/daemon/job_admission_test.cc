#include "server/daemon/job_admission.h"

#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

// 1 MiB of weights in chunks of 64 KiB over two shards, SGD, window 4: per shard 512 KiB + 64 KiB +
// 448 KiB held + 1 MiB of messages with two nodes.
constexpr uint64_t kShardBytes = (512 + 64 + 448 + 1024) << 10;

proto::InstallJob Install(uint32_t job, uint32_t nodes = 2) {
  JobOptions options;
  options.job = job;
  options.ranks = std::vector<uint32_t>(nodes, 1);
  options.elements = 1 << 18;
  options.chunk_elements = 1 << 14;
  options.shards = 2;
  options.job_text = "window: 4 optimizer { sgd {} } schedule { base_lr: 0.5 }";
  proto::InstallJob install;
  *install.mutable_record() = MakeRecord(options);
  install.add_own_shards(0);
  install.add_own_shards(1);
  return install;
}

TEST(JobAdmission, TakesJobsAsLongAsTheirMemoryFits) {
  JobAdmission admission({.memory_bytes = 4 * kShardBytes});
  EXPECT_TRUE(admission.Admit(Install(1)).ok());
  EXPECT_TRUE(admission.Admit(Install(2)).ok());
  EXPECT_EQ(admission.promised_bytes(), 4 * kShardBytes);
  EXPECT_EQ(admission.LimitOf(JobId(2), 1), kShardBytes);
  EXPECT_EQ(admission.chunk_bytes_max(), 64u << 10);
  const absl::Status refused = admission.Admit(Install(3));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message().substr(0, 57),
            "it needs up to 4.0 MiB: weights 512.0 KiB + chunk in upda");
  EXPECT_EQ(refused.message().substr(refused.message().find(';')),
            "; other jobs are promised 8.0 MiB of the limit of 8.0 MiB (--memory-limit)");
  EXPECT_EQ(admission.LimitOf(JobId(3), 0), 0u);
  admission.Release(JobId(1));
  EXPECT_TRUE(admission.Admit(Install(3)).ok());
}

TEST(JobAdmission, CountsOnlyTheShardsThatTheJobHasHere) {
  proto::InstallJob install = Install(1);
  install.set_own_shards(0, 0xffffffff);
  JobAdmission admission({.memory_bytes = kShardBytes});
  EXPECT_TRUE(admission.Admit(install).ok());
  EXPECT_EQ(admission.LimitOf(JobId(1), 0), 0u);
  EXPECT_EQ(admission.LimitOf(JobId(1), 1), kShardBytes);
}

TEST(JobAdmission, RefusesMoreNodesThanConnections) {
  JobAdmission admission({.connections_max = 5});
  EXPECT_TRUE(admission.Admit(Install(1, 3)).ok());
  EXPECT_EQ(
      admission.Admit(Install(2, 3)).message(),
      "its 3 nodes need 1 connection each at every shard; other jobs have 3 of the limit of 5 "
      "(--connections)");
  EXPECT_TRUE(admission.Admit(Install(2, 2)).ok());
  EXPECT_TRUE(admission.Admit(Install(1, 3)).ok()) << "again";
}

TEST(JobAdmission, CountsEachOfANodesConnections) {
  JobAdmission admission({.connections_max = 7});
  proto::InstallJob install = Install(1, 2);
  install.mutable_record()->mutable_job()->set_connections(3);
  EXPECT_TRUE(admission.Admit(install).ok());
  EXPECT_EQ(
      admission.Admit(Install(2, 2)).message(),
      "its 2 nodes need 1 connection each at every shard; other jobs have 6 of the limit of 7 "
      "(--connections)");
  EXPECT_TRUE(admission.Admit(Install(2, 1)).ok());
}

}  // namespace
}  // namespace strata::server
