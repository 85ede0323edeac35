#include "tests/e2e/device_jobs.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/e2e/jobs.h"
#include "tests/e2e/leftovers.h"

namespace strata::tests {

std::string FakeDevices(const std::string& options) {
  return absl::StrCat("kernels/cuda/libstrata_fake_device.so,", options);
}

proto::Job DeviceRankJob(const std::string& name, const std::string& where, int steps,
                         const std::string& fields, int step_ms) {
  proto::Job job = JobOf(absl::StrCat("chunk_elements: 1024 ", fields));
  job.set_name(name);
  job.mutable_program()->set_path(std::filesystem::absolute("tests/e2e/device_rank").string());
  for (const std::string& arg : {where, absl::StrCat(steps), absl::StrCat(step_ms)}) {
    job.mutable_program()->add_args(arg);
  }
  return job;
}

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string RankLog(const std::string& run_dir, int rank) {
  return ContentsOf(absl::StrCat(run_dir, "/logs/rank", rank, ".log"));
}

std::vector<int> ProcessesWith(const std::string& words) {
  std::vector<int> pids;
  for (const std::string& line : Processes()) {
    if (absl::StrContains(line, words)) pids.push_back(std::atoi(line.c_str()));
  }
  return pids;
}

}  // namespace strata::tests
