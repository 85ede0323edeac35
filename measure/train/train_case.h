#ifndef STRATA_MEASURE_TRAIN_TRAIN_CASE_H_
#define STRATA_MEASURE_TRAIN_TRAIN_CASE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata::bench {

// What ranks of a job do with each other.
struct TrainCase {
  std::string mode;  // "none", "sync", "lazy", "async" (servers), "ring", "nccl"
  uint32_t ranks = 1;
  uint32_t nodes = 1;  // "none": as many jobs of one rank, side by side

  bool is_none() const { return mode == "none"; }
  bool has_servers() const { return mode == "sync" || mode == "lazy" || mode == "async"; }
};

struct TrainCaseOptions {
  std::vector<std::string> modes = {"sync", "lazy", "async", "ring"};
  uint32_t ranks_max = 2;  // 1, 2, 4, ... and this
  // 0: one node holds all ranks, in a ring each its own. Numbers of ranks that fill no nodes of
  // this size lie on one node, if they are fewer, or are left out.
  uint32_t ranks_per_node = 0;
  uint32_t servers = 1;
};

// By ranks, of each number "none" first; a ring of one node is left out.
std::vector<TrainCase> MakeCases(const TrainCaseOptions& options);

// Errors: InvalidArgument (a mode that is none of them).
absl::Status CheckModes(const std::vector<std::string>& modes);

// What ranks of jobs on GPUs may have of this machine's.
struct GpuRoom {
  std::vector<uint32_t> gpus;  // indices; none: ranks compute on the CPU
  uint32_t ranks_per_gpu = 1;  // of each node, at once
};

// Why such a machine cannot run the case; empty: it can.
std::string WhyNot(const TrainCase& what, const GpuRoom& room);

// How a job is run for a case.
struct TrainRun {
  std::string job;     // a file
  uint64_t steps = 0;  // of each rank
  uint32_t servers = 1;
  std::vector<std::string> cluster;  // further words for its cluster, such as its plugin
  std::vector<uint32_t> gpus;        // that it may use; none: --gpus is not said
  std::string dir;                   // for what the job leaves; DIR-runs beside it
};

// Windows of steps that metrics tell apart; the first one warms up.
inline constexpr uint64_t kWindows = 8;

// "strata local ...", which trains.
std::vector<std::string> MakeCommand(const TrainCase& what, const TrainRun& run);

}  // namespace strata::bench

#endif  // STRATA_MEASURE_TRAIN_TRAIN_CASE_H_
