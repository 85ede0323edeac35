#include "tests/e2e/testing/jobs.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::tests {

proto::Job JobFromText(const std::string& text) {
  auto job = ParseJob(text, "test");
  EXPECT_TRUE(job.ok()) << job.status();
  if (!job.ok()) return proto::Job();
  FillDefaults(&*job);
  return *job;
}

proto::Job LenetJob(const std::string& name, int ranks, int ranks_per_node, int steps,
                    const std::string& consistency) {
  return JobFromText(absl::Substitute(R"(
    name: "$0"
    model { zoo: "lenet5" }
    data { synthetic { train_samples: 2048 test_samples: 256 } batch_per_rank: 16 }
    optimizer { momentum_sgd { momentum: 0.9 weight_decay: 5e-4 } }
    schedule { base_lr: 0.02 }
    ranks: $1
    ranks_per_node: $2
    max_steps: $3
    epochs: 1000
    consistency { $4 }
    chunk_elements: 1024
    window: 4
    metrics { every_steps: 10 }
    debug { hash_weights: true }
  )",
                                      name, ranks, ranks_per_node, steps, consistency));
}

std::string WriteJob(const std::string& dir, const proto::Job& job) {
  std::string path = absl::StrCat(dir, "/", job.name(), ".textproto");
  std::ofstream(path) << job.DebugString();
  return path;
}

std::vector<std::string> Hashes(const std::string& run_dir, int node) {
  std::string path = absl::StrCat(run_dir, "/weights.node-", node, ".hashes");
  std::ifstream in(path);
  EXPECT_TRUE(in.is_open()) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<nlohmann::json> Metrics(const std::string& run_dir) {
  std::ifstream in(run_dir + "/metrics.jsonl");
  EXPECT_TRUE(in.is_open()) << run_dir;
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_FALSE(lines.back().is_discarded()) << line;
  }
  return lines;
}

uint64_t SumField(const std::vector<nlohmann::json>& metrics, const std::string& field) {
  uint64_t sum = 0;
  for (const auto& line : metrics) sum += line.value(field, uint64_t{0});
  return sum;
}

std::vector<uint64_t> StalenessCounts(const std::vector<nlohmann::json>& metrics) {
  std::vector<uint64_t> sum;
  for (const auto& line : metrics) {
    for (size_t i = 0; i < line["staleness"].size(); ++i) {
      if (sum.size() <= i) sum.resize(i + 1);
      sum[i] += line["staleness"][i].get<uint64_t>();
    }
  }
  return sum;
}

double FinalAccuracy(const std::vector<nlohmann::json>& metrics) {
  for (const auto& line : metrics) {
    if (line.value("final", false)) return line.value("test_accuracy", -1.0);
  }
  return -1;
}

}  // namespace strata::tests
