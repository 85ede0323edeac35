#ifndef STRATA_CLI_BENCH_TRAIN_CASE_H_
#define STRATA_CLI_BENCH_TRAIN_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::cli {

// Models whose steps a core makes in less than half a second.
std::vector<std::string> SmallModels();

// Resolves names, "small" (the above) or "all" (of the zoo) to names of models, each once. Errors:
// InvalidArgument (a name that the zoo does not have).
absl::StatusOr<std::vector<std::string>> ParseModels(const std::vector<std::string>& names);

// Returns a job file for a model of the zoo: synthetic data of the published size, 1 x 28 x 28
// (mlp, lenet5, cnn, resnet8), 3 x 32 x 32 (resnet20) or 3 x 224 x 224. `batch` is per rank; 0: 64,
// but 8 for the last ones on a CPU.
std::string MakeJobText(const std::string& model, uint32_t batch, bool on_gpu);

// How the ranks of a job exchange.
struct TrainCase {
  std::string mode;  // "none", "sync", "lazy", "async" (servers), "ring", "nccl"
  uint32_t ranks = 1;
  uint32_t nodes = 1;  // "none": as many concurrent jobs of one rank

  bool is_none() const { return mode == "none"; }
  bool has_servers() const { return mode == "sync" || mode == "lazy" || mode == "async"; }
};

struct TrainCaseOptions {
  std::vector<std::string> modes = {"sync", "lazy", "async", "ring"};
  uint32_t ranks_max = 2;  // 1, 2, 4, ... and this
  // 0: one node holds all ranks, in a ring each has its own. Numbers of ranks that do not fill
  // nodes of this size are on one node if they are fewer, and otherwise omitted.
  uint32_t ranks_per_node = 0;
  uint32_t servers = 1;
};

// By number of ranks, "none" first for each; a ring of one node is omitted.
std::vector<TrainCase> MakeCases(const TrainCaseOptions& options);

// Errors: InvalidArgument (an unknown mode).
absl::Status CheckModes(const std::vector<std::string>& modes);

// The GPUs of this machine that jobs' ranks may use.
struct GpuRoom {
  std::vector<uint32_t> gpus;  // indices; empty: ranks compute on the CPU
  uint32_t ranks_per_gpu = 1;  // per node, at once
};

// Returns why such a machine cannot run the case; empty: it can.
std::string WhyNot(const TrainCase& what, const GpuRoom& room);

// How a job is run for a case.
struct TrainRun {
  std::string job;     // a file
  uint64_t steps = 0;  // of each rank
  uint32_t servers = 1;
  std::vector<std::string> cluster;  // additional options for its cluster, such as its plugin
  std::vector<uint32_t> gpus;        // that it may use; empty: --gpus is omitted
  std::string dir;                   // for the job's output; DIR-runs beside it
};

// Windows of steps in the metrics; the first one warms up.
inline constexpr uint64_t kWindows = 8;

// "strata local ...", which trains.
std::vector<std::string> MakeCommand(const TrainCase& what, const TrainRun& run);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_TRAIN_CASE_H_
