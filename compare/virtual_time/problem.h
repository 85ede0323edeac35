#ifndef STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_H_
#define STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"
#include "compare/virtual_time/compute_pool.h"
#include "proto/job.pb.h"
#include "training/nn/network/model.h"
#include "training/trainer/step_plan.h"
#include "worker/client/connect/tensor_set.h"

namespace strata::compare {

// A stage of a step: a layer with weights, and the layers without weights that follow it.
struct StepStage {
  int first_weight = 0, weights = 0;  // of ListWeights
  double forward = 0, backward = 0;   // share of the forward pass's time, and of the backward
                                      // pass's
};

// A model's stages in the order of forward. Shares are those of multiplications and additions:
// twice as many backward as forward, but in the first stage, which owes nobody a gradient. Layers
// without weights cost as much as two multiplications per value that goes in. Errors: of
// FollowShapes; InvalidArgument (no weights).
absl::StatusOr<std::vector<StepStage>> MakeStages(const training::ModelSpec& model);

// The result of a rank's step.
struct StepResult {
  double loss = 0;  // summed over the samples
  uint32_t samples = 0;
};

// One rank's computation: gradients of its samples by its node's weights.
//
// Threads: the owner's.
class RankCompute {
 public:
  virtual ~RankCompute() = default;

  // Begins to compute the gradients of a step from weights that do not change until Finish.
  virtual void Begin(uint64_t step, ComputePool* pool) = 0;
  // Waits for the gradients. Errors: DivergedError (a loss or gradient is not a number; names rank
  // and step), or another error that prevented the computation. REQUIRES: Begin without a Finish
  // since.
  virtual absl::StatusOr<StepResult> Finish(ComputePool* pool) = 0;
  // Gradients summed over the step's samples, in arena order; valid from Finish to the next Begin.
  virtual const float* gradients() const = 0;
};

// A measurement of weights in progress.
class Measuring {
 public:
  virtual ~Measuring() = default;
  // Waits for the results and writes them to `measurement`. Errors: those of the measurement.
  virtual absl::Status Finish(ComputePool* pool, proto::Measurement* measurement) = 0;
};

// The task that the ranks of a job train: tensors, steps, gradients, and the measurement of
// weights. A model of the zoo (ZooProblem) or a script's task (TaskProblem).
//
// Threads: the owner's.
class Problem {
 public:
  virtual ~Problem() = default;

  // The job with its optimizer and all defaults.
  const proto::Job& job() const { return job_; }
  const training::StepPlan& plan() const { return plan_; }
  const std::vector<StepStage>& stages() const { return stages_; }
  // The tensors in arena order: weights (see TensorIndex), then exchanged statistics of batch
  // normalisation.
  const client::TensorSet& tensors() const { return tensors_; }
  // Returns the index in `tensors` of weight number `weight` in forward order.
  int TensorIndex(int weight) const { return weights_ - 1 - weight; }
  // The index of the first statistic; the number of tensors if there is none.
  int first_statistics() const { return weights_; }

  // Returns true if the problem gives each step's learning rate, `rate`, instead of the schedule.
  virtual bool says_rates() const { return false; }
  virtual float rate() const { return 0; }

  virtual void FirstWeights(float* arena) const = 0;
  // Returns the computation of a rank on the node with this arena; both outlive it.
  virtual std::unique_ptr<RankCompute> MakeRank(uint32_t rank, float* arena) = 0;
  // Begins to measure weights that rank 0 had after `step` steps. Returns null where there is
  // nothing to measure by. The problem outlives it, `arena` need not. Errors: as of Finish.
  virtual absl::StatusOr<std::unique_ptr<Measuring>> Measure(float* arena, uint64_t step,
                                                             const RankCompute& rank_0,
                                                             ComputePool* pool) = 0;

  // Returns an error that prevents any computation, whatever the weights are. A run that met it has
  // no result.
  virtual absl::Status health() const { return absl::OkStatus(); }

 protected:
  explicit Problem(proto::Job job) : job_(std::move(job)) {}

  proto::Job job_;
  training::StepPlan plan_;
  std::vector<StepStage> stages_;
  client::TensorSet tensors_;
  int weights_ = 0;  // tensors
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_H_
