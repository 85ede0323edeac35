#include "server/daemon/job_admission.h"

#include <string>
#include <utility>

#include "common/job/placement.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

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

// 256 KiB of weights on a shard in one chunk, three nodes, each with its own copy of the weights.
constexpr uint64_t kChunkBytes = 256 << 10;

proto::InstallJob InstallWithCopies(const std::string& mode) {
  JobOptions options;
  options.job = 1;
  options.ranks = {1, 1, 1};
  options.elements = options.chunk_elements = kChunkBytes / sizeof(float);
  options.job_text =
      "window: 1 optimizer { sgd {} } schedule { base_lr: 0.5 } replicas: 1 consistency { async "
      "{ " +
      mode + " } }";
  proto::InstallJob install;
  *install.mutable_record() = MakeRecord(options);
  return install;
}

TEST(JobAdmission, ASecondCopyTakesWhatTheFirstOneDoesAlsoWhatEachNodeWasGiven) {
  // Weights, a chunk being updated and messages of three nodes; the nodes' copies, and one gradient
  // or distance.
  constexpr uint64_t kPlain = (1 + 1 + 6) * kChunkBytes, kGiven = (3 + 1) * kChunkBytes;
  for (const auto& [mode, bytes] :
       {std::pair("", kPlain), std::pair("delay_compensation {}", kPlain + kGiven),
        std::pair("delay_compensation { adaptive: true }", kPlain + kGiven + kChunkBytes),
        std::pair("elastic {}", kPlain + kGiven)}) {
    SCOPED_TRACE(mode);
    proto::InstallJob first = InstallWithCopies(mode), second = first;
    first.add_own_shards(0);
    second.add_own_shards(kNoShard);
    proto::OwnBackup* const backup = second.add_own_backups();
    backup->set_shard(0);
    backup->set_thread(0);
    JobAdmission of_first({.memory_bytes = bytes}), of_second({.memory_bytes = bytes});
    EXPECT_EQ(of_first.Admit(first), absl::OkStatus());
    EXPECT_EQ(of_second.Admit(second), absl::OkStatus());
    EXPECT_EQ(of_first.promised_bytes(), bytes);
    EXPECT_EQ(of_second.promised_bytes(), bytes);
    EXPECT_EQ(of_second.LimitOf(JobId(1), 0), bytes);
    JobAdmission too_small({.memory_bytes = bytes - 1});
    EXPECT_EQ(too_small.Admit(second).code(), absl::StatusCode::kResourceExhausted);
    // A backup that is made later, as when the first one is lost.
    proto::InstallBackup later;
    *later.mutable_record() = second.record();
    *later.mutable_backup() = *backup;
    JobAdmission of_later({.memory_bytes = bytes});
    EXPECT_EQ(of_later.AdmitBackup(later), absl::OkStatus());
    EXPECT_EQ(of_later.promised_bytes(), bytes);
    EXPECT_EQ(too_small.AdmitBackup(later).code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace strata::server
