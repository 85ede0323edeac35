#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_RUN_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compare/runner.h"
#include "compare/virtual_time/cluster_file.h"
#include "compare/virtual_time/problem.h"
#include "compare/virtual_time/zoo_problem.h"

namespace strata::compare {

struct VirtualRunOptions {
  // Threads that compute gradients, including the caller's. They do not affect any result.
  uint32_t threads = 1;
  // Ends the run when set; null: cannot be stopped.
  const std::atomic<bool>* stop = nullptr;
  Runner::OnProgress on_progress;  // may be null
  // Gets all weights of a node before each step, and the final ones with `step` equal to the job's
  // number of steps. May be null.
  std::function<void(uint32_t node, uint64_t step, absl::Span<const float> arena)> on_weights;
};

struct VirtualOutcome {
  proto::RunRecord record;
  std::vector<float> weights;  // node 0's final weights in arena order; empty: the run has failed
  double virtual_s = 0;        // from the first connection to the end of the last one
  double bytes_between_hosts = 0;
};

// Runs a job once, in virtual time: see docs/reports.md. `problem` is the job's. Errors: the
// problem's health, InvalidArgument (the job does not fit the cluster), Cancelled (`stop`),
// Internal (nothing more happens, but it has not ended). A job that fails by itself is a record
// with `failure`.
absl::StatusOr<VirtualOutcome> RunInVirtualTime(const RunPlan& plan, const ClusterFile& cluster,
                                                std::unique_ptr<Problem> problem,
                                                const VirtualRunOptions& options);

// The same with a model of the zoo, on the job's data. Additional errors: those of
// ZooProblem::Create.
absl::StatusOr<VirtualOutcome> RunInVirtualTime(const RunPlan& plan, const ClusterFile& cluster,
                                                std::shared_ptr<const TrainingData> data,
                                                const VirtualRunOptions& options);

// Returns a runner that runs jobs in virtual time on `cluster`. `threads` >= 1 compute gradients,
// including the caller's. The data of the last job is cached for the next one.
std::unique_ptr<Runner> CreateVirtualRunner(ClusterFile cluster, uint32_t threads);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_RUN_H_
