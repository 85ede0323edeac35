#ifndef STRATA_TESTS_E2E_TESTING_DEVICE_FAILURE_H_
#define STRATA_TESTS_E2E_TESTING_DEVICE_FAILURE_H_

#include <optional>
#include <string>

#include "common/ids.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/device_jobs.h"

namespace strata::tests {

// One node whose ranks, with a fake GPU each, are to fail together.
class DeviceFailure : public testing::Test {
 protected:
  void StartOn(const Cluster::Options& options) {
    cluster_.emplace(options);
    ASSERT_EQ(cluster_->Start(), absl::OkStatus());
  }
  // A job of TrainOnDevice's.
  JobId Submit(const std::string& folder, const std::string& fields, int steps) {
    const auto job = cluster_->Submit(TrainOnDevice(folder).Job(fields, steps));
    EXPECT_TRUE(job.ok()) << job.status();
    return *job;
  }
  std::string FailureReason(JobId job) {
    const proto::JobStatus status = cluster_->WaitForEnd(job);
    EXPECT_EQ(status.state(), proto::FAILED);
    return status.reason();
  }
  // Nothing of the job is left, and the next one, of one rank, runs on its GPUs.
  void ExpectTheNextRuns(const std::string& fields) {
    EXPECT_TRUE(WaitUntil([] { return TrainOnDevice::RankProcesses().empty(); }));
    EXPECT_EQ(cluster_->client().ListNodes().value().daemons(1).gpu_slots_used(), 0u);
    cluster_->RunToEnd(TrainOnDevice("next").Job(fields, 3));
  }

  std::optional<Cluster> cluster_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_DEVICE_FAILURE_H_
