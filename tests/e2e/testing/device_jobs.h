#ifndef STRATA_TESTS_E2E_TESTING_DEVICE_JOBS_H_
#define STRATA_TESTS_E2E_TESTING_DEVICE_JOBS_H_

#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "gtest/gtest.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "tests/e2e/testing/cluster.h"

namespace strata::tests {

// The plugin of the fake devices with options: "devices=2,memory_mb=64".
std::string FakeDevices(const std::string& options);

// A job of device_rank.cc. `where`: how its tensor is placed ("copied", "stream"). Each of its
// steps takes at least the given time. `fields`: more fields of the job, as text.
proto::Job DeviceRankJob(const std::string& name, const std::string& where, int steps,
                         const std::string& fields, int step_ms = 0);

// Returns the final weights that its rank 0 has printed, if it has.
std::string FinalWeights(const proto::JobStatus& status);

// A job of train_on_device.cc, whose ranks write their final weights to a folder of its own. Its
// name selects extra behaviour ("spoils", "uneven").
class TrainOnDevice {
 public:
  static constexpr int kForEver = 10'000'000;

  explicit TrainOnDevice(const std::string& name);
  proto::Job Job(const std::string& fields, int steps) const;
  std::string Weights(int rank) const;
  static std::vector<int> RankProcesses();

 private:
  const std::string folder_;
};

// Returns the content of a file; empty if it does not exist.
std::string ReadContents(const std::string& path);
// Returns the rank's output from its log.
std::string RankLog(const std::string& run_dir, int rank);

// Processes of this test's cluster whose command line contains these words.
std::vector<int> ProcessesWith(const std::string& words);

// One node whose ranks, with a fake GPU each, are to fail together.
class DeviceFailure : public testing::Test {
 protected:
  void StartOn(const Cluster::Options& options) {
    cluster_.emplace(options);
    ASSERT_EQ(cluster_->Start(), absl::OkStatus());
  }
  // Submits a job of TrainOnDevice.
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
  // Expects that nothing of the job is left, and that the next job, of one rank, runs on its GPUs.
  void ExpectTheNextRuns(const std::string& fields) {
    EXPECT_TRUE(WaitUntil([] { return TrainOnDevice::RankProcesses().empty(); }));
    EXPECT_EQ(cluster_->client().ListNodes().value().daemons(1).gpu_slots_used(), 0u);
    cluster_->RunToEnd(TrainOnDevice("next").Job(fields, 3));
  }

  std::optional<Cluster> cluster_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_DEVICE_JOBS_H_
