#ifndef STRATA_TESTS_E2E_TESTING_DEVICE_JOBS_H_
#define STRATA_TESTS_E2E_TESTING_DEVICE_JOBS_H_

#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/job.pb.h"

namespace strata::tests {

// The plugin of the fake devices, with options of its own: "devices=2,memory_mb=64".
std::string FakeDevices(const std::string& options);

// A job of device_rank.cc: where its tensor lies ("copied", "stream"), how many steps it takes, and
// how long each of them at least. `fields`: more of the job's, as text.
proto::Job DeviceRankJob(const std::string& name, const std::string& where, int steps,
                         const std::string& fields, int step_ms = 0);

// What rank 0 of it has printed of the final weights, if it has.
std::string FinalWeights(const proto::JobStatus& status);

// A job of train_on_device.cc, whose ranks leave their final weights in a folder of its own. Its
// name says what they do besides ("spoils", "uneven").
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

// Returns all that is in a file; empty if there is none.
std::string ReadContents(const std::string& path);
// What the rank has written, on its output as in its log.
std::string RankLog(const std::string& run_dir, int rank);

// Processes of this test's cluster with this in their command line.
std::vector<int> ProcessesWith(const std::string& words);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_DEVICE_JOBS_H_
