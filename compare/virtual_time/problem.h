#ifndef STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_H_
#define STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compare/virtual_time/compute_pool.h"
#include "compare/virtual_time/step_shape.h"
#include "proto/job.pb.h"
#include "training/data/dataset.h"
#include "training/nn/network/model.h"
#include "training/trainer/step_plan.h"
#include "worker/client/connect/tensor_set.h"

namespace strata::compare {

// A job's data as all ranks read it.
struct TrainingData {
  worker::TrainAndTest sets;
  worker::Normalisation normalisation;
};

// Errors: of worker::LoadData.
absl::StatusOr<std::shared_ptr<const TrainingData>> LoadTrainingData(const proto::Job& job);

// What the ranks of a job train: data, model, steps, and where tensors lie in an arena; as
// training/trainer has it.
//
// Threads: const methods from any, SampleOrder from the owner's.
class Problem {
 public:
  // `job` has its defaults filled in. Errors: those of the model, and of MakeStepPlan.
  static absl::StatusOr<std::unique_ptr<Problem>> Create(const proto::Job& job,
                                                         std::shared_ptr<const TrainingData> data);

  const proto::Job& job() const { return job_; }
  const TrainingData& data() const { return *data_; }
  const worker::ModelSpec& model() const { return model_; }
  const worker::StepPlan& plan() const { return plan_; }
  const std::vector<StepStage>& stages() const { return stages_; }
  // The tensors in arena order: weights, see TensorIndex, then statistics of batch normalisation
  // that are exchanged.
  const client::TensorSet& tensors() const { return tensors_; }
  // The tensor in `tensors` of number `weight` of ListWeights.
  int TensorIndex(int weight) const { return weights_ - 1 - weight; }
  // The number of the first statistic; as many as there are tensors where there is none.
  int first_statistics() const { return weights_; }

  // Return where the weights of an arena lie, as ListWeights counts them, and its statistics, as
  // ListBuffers does.
  std::vector<absl::Span<float>> WeightSpans(float* arena) const;
  std::vector<absl::Span<float>> StatisticsSpans(float* arena) const;
  void FirstWeights(float* arena) const;
  std::vector<std::vector<float>> FirstBuffers() const;

  using Order = std::shared_ptr<const std::vector<uint32_t>>;
  // Returns the order of the samples in the epoch of a step.
  Order SampleOrder(uint64_t step);

 private:
  Problem(const proto::Job& job, std::shared_ptr<const TrainingData> data)
      : job_(job), data_(std::move(data)) {}
  absl::Status Build();

  const proto::Job job_;
  const std::shared_ptr<const TrainingData> data_;
  worker::ModelSpec model_;
  worker::StepPlan plan_;
  std::vector<StepStage> stages_;
  client::TensorSet tensors_;
  int weights_ = 0;                                                        // tensors
  std::map<uint64_t, std::weak_ptr<const std::vector<uint32_t>>> orders_;  // by epoch
  Order newest_;
};

// One rank's computation: gradients of its samples by its node's weights.
class RankCompute {
 public:
  // `problem` and `weights`, the node's arena, outlive it.
  RankCompute(Problem* problem, uint32_t rank, float* weights);

  // Computes the gradients of a step on the pool, from weights that stay as they are until
  // Finish.
  void Begin(uint64_t step, ComputePool* pool);
  // Waits for them. Returns the loss, summed over the samples. Errors: OutOfRange (the loss is no
  // number, naming rank and step); those of the network. REQUIRES: begun, and not finished
  // since.
  absl::StatusOr<double> Finish(ComputePool* pool);

  const float* gradients() const { return gradients_.data(); }
  const std::vector<std::vector<float>>& buffers() const { return buffers_; }

 private:
  absl::Status Compute(ComputePool::Worker* worker);

  Problem* const problem_;
  const uint32_t rank_;
  std::vector<float> gradients_;
  std::vector<std::vector<float>> buffers_;
  std::vector<absl::Span<float>> weight_spans_, gradient_spans_, buffer_spans_, statistics_spans_;
  ComputePool::Ticket ticket_;
  // What follows belongs to the step in hand.
  uint64_t step_ = 0;
  Problem::Order order_;
  absl::Status status_;
  double loss_ = 0;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_PROBLEM_H_
