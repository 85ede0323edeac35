#include "tests/e2e/testing/device_jobs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {

std::string FakeDevices(const std::string& options) {
  return absl::StrCat("kernels/cuda/libstrata_fake_device.so,", options);
}

proto::Job DeviceRankJob(const std::string& name, const std::string& where, int steps,
                         const std::string& fields, int step_ms) {
  proto::Job job = JobFromText(absl::StrCat("chunk_elements: 1024 ", fields));
  job.set_name(name);
  job.mutable_program()->set_path(
      std::filesystem::absolute("tests/e2e/testing/device_rank").string());
  for (const std::string& arg : {where, absl::StrCat(steps), absl::StrCat(step_ms)}) {
    job.mutable_program()->add_args(arg);
  }
  return job;
}

std::string FinalWeights(const proto::JobStatus& status) {
  std::smatch found;
  const std::string log = RankLog(status.run_dir(), 0);
  return std::regex_search(log, found, std::regex("weights [0-9a-f]{16}")) ? found.str() : log;
}

TrainOnDevice::TrainOnDevice(const std::string& name)
    : folder_(absl::StrCat(TestDir(), "/", name)) {
  std::filesystem::create_directories(folder_);
}

proto::Job TrainOnDevice::Job(const std::string& fields, int steps) const {
  proto::Job job = JobFromText(absl::StrCat(
      "epochs: 1 chunk_elements: 512 optimizer { momentum_sgd { weight_decay: 1e-3 } } ", fields));
  job.set_name("train");
  job.mutable_program()->set_path(std::filesystem::absolute("tests/e2e/testing/train_on_device"));
  job.mutable_program()->add_args(folder_);
  job.mutable_program()->add_args(absl::StrCat(steps));
  return job;
}

std::string TrainOnDevice::Weights(int rank) const {
  const std::string weights = ReadContents(absl::StrCat(folder_, "/rank", rank, ".weights"));
  EXPECT_EQ(weights.size(), 1800 * sizeof(float));
  return weights;
}

std::vector<int> TrainOnDevice::RankProcesses() { return ProcessesWith("train_on_device"); }

std::string ReadContents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string RankLog(const std::string& run_dir, int rank) {
  return ReadContents(absl::StrCat(run_dir, "/logs/rank", rank, ".log"));
}

std::vector<int> ProcessesWith(const std::string& words) {
  std::vector<int> pids;
  for (const std::string& line : Processes()) {
    if (absl::StrContains(line, words)) pids.push_back(std::atoi(line.c_str()));
  }
  return pids;
}

}  // namespace strata::tests
