#ifndef STRATA_COMPARE_VIRTUAL_TIME_ZOO_PROBLEM_H_
#define STRATA_COMPARE_VIRTUAL_TIME_ZOO_PROBLEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compare/virtual_time/problem.h"
#include "training/data/dataset.h"
#include "training/nn/network/model.h"

namespace strata::compare {

// A job's data as all ranks read it.
struct TrainingData {
  training::TrainAndTest sets;
  training::Normalisation normalisation;
};

// Errors: those of training::LoadData.
absl::StatusOr<std::shared_ptr<const TrainingData>> LoadTrainingData(const proto::Job& job);

// A model of the zoo and its data, as in training/trainer. Ranks compute on the pool.
//
// Threads: const methods from any, all others from the owner's.
class ZooProblem final : public Problem {
 public:
  // `job` has its defaults filled in. Errors: those of the model, and of MakeStepPlan.
  static absl::StatusOr<std::unique_ptr<ZooProblem>> Create(
      const proto::Job& job, std::shared_ptr<const TrainingData> data);

  const TrainingData& data() const { return *data_; }
  const training::ModelSpec& model() const { return model_; }

  void FirstWeights(float* arena) const override;
  std::unique_ptr<RankCompute> MakeRank(uint32_t rank, float* arena) override;
  absl::StatusOr<std::unique_ptr<Measuring>> Measure(float* arena, uint64_t step,
                                                     const RankCompute& rank_0,
                                                     ComputePool* pool) override;

  // Return the spans of an arena's weights, in the order of ListWeights, and of its statistics, in
  // that of ListBuffers.
  std::vector<absl::Span<float>> WeightSpans(float* arena) const;
  std::vector<absl::Span<float>> StatisticsSpans(float* arena) const;
  std::vector<std::vector<float>> FirstBuffers() const;

  using Order = std::shared_ptr<const std::vector<uint32_t>>;
  // Returns the order of the samples in the epoch of a step.
  Order SampleOrder(uint64_t step);

 private:
  ZooProblem(const proto::Job& job, std::shared_ptr<const TrainingData> data)
      : Problem(job), data_(std::move(data)) {}
  absl::Status Build();

  const std::shared_ptr<const TrainingData> data_;
  training::ModelSpec model_;
  std::map<uint64_t, std::weak_ptr<const std::vector<uint32_t>>> orders_;  // by epoch
  Order newest_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_ZOO_PROBLEM_H_
