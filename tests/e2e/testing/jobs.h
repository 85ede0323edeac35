#ifndef STRATA_TESTS_E2E_TESTING_JOBS_H_
#define STRATA_TESTS_E2E_TESTING_JOBS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace strata::tests {

inline constexpr char kFashionMnist[] = "/usr/share/datasets/fashion-mnist";

// Parses a job from protobuf text; invalid text fails the test.
proto::Job JobFromText(const std::string& text);

// LeNet-5 on synthetic data in 61 chunks of 1,024 elements: `steps` steps of 16 samples per rank,
// weights hashed at every step. `consistency`: the content of that field.
proto::Job LenetJob(const std::string& name, int ranks, int ranks_per_node, int steps,
                    const std::string& consistency = "sync {}");

// Writes the job as NAME.textproto into `dir` and returns the path.
std::string WriteJob(const std::string& dir, const proto::Job& job);

// Returns the lines of RUN_DIR/weights.node-N.hashes: "STEP HASH".
std::vector<std::string> Hashes(const std::string& run_dir, int node);
// Returns RUN_DIR/metrics.jsonl.
std::vector<nlohmann::json> Metrics(const std::string& run_dir);

// Sums over all lines of the metrics.
uint64_t SumField(const std::vector<nlohmann::json>& metrics, const std::string& field);
// Returns pushes by staleness, summed over all lines; the index is the staleness.
std::vector<uint64_t> StalenessCounts(const std::vector<nlohmann::json>& metrics);
// Returns the accuracy of the final model; -1 if it was not measured.
double FinalAccuracy(const std::vector<nlohmann::json>& metrics);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_JOBS_H_
