#ifndef STRATA_TESTS_SIM_CHECK_REFERENCE_OPTIMIZER_H_
#define STRATA_TESTS_SIM_CHECK_REFERENCE_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata::sim {

// The optimizers and schedules of proto/job.proto as plain scalar loops over one chunk. Written for
// tests from the formulas there; shares no code with kernels/, common/job/ or server/.
class ReferenceOptimizer {
 public:
  // Creates the optimizer that the job asks for: the servers', or the nodes' with local steps.
  // `record` has its job's defaults filled in and a valid layout and placement.
  ReferenceOptimizer(const proto::JobRecord& record, ChunkId chunk);
  // How servers apply the mean of the changes that nodes push after local steps.
  static ReferenceOptimizer Outer(proto::JobRecord record, ChunkId chunk);

  // How servers apply a node's distance from the center: SGD at the moving rate.
  static ReferenceOptimizer Elastic(proto::JobRecord record, ChunkId chunk);
  // What servers do if nodes apply the optimizer because it needs norms of all weights: a mean.
  static ReferenceOptimizer Mean(const proto::JobRecord& record, ChunkId chunk);
  static bool IsMean(const proto::JobRecord& record);

  // One update with the mean gradient gradient_sum / divisor. An empty sum is a zero gradient.
  // `samples` more have been applied with it; the rate, of the schedule or where the record says so
  // the one that is `said`, is multiplied by `factor`.
  // The division is a product with the reciprocal, rounded once to fp32: kernels.h says so.
  void Update(const std::vector<float>& gradient_sum, uint64_t divisor, uint64_t samples,
              double factor, std::vector<float>* weights, double said = 0);

  // Returns the learning rate once `samples` have been applied.
  double RateAt(uint64_t samples) const;
  size_t elements() const { return rate_multiplier_.size(); }

 private:
  double ShareOfSgd() const;
  template <typename Direction>
  void Descend(const std::vector<float>& gradient_sum, float reciprocal, double rate,
               std::vector<float>* weights, Direction direction);
  // What element i moves by, for its gradient with the decay; updates its state.
  float RmspropDelta(size_t i, float d, float a, float b);
  float AdagradRatio(size_t i, float d);
  void DescendByFtrl(const std::vector<float>& gradient_sum, float reciprocal, double rate,
                     std::vector<float>* weights);

  const proto::Optimizer optimizer_;
  const proto::Schedule schedule_;
  const uint64_t samples_per_epoch_;
  const uint32_t epochs_;
  const bool says_rates_;
  const float momentum_, beta1_, beta2_, epsilon_;  // 0 if the optimizer has none
  // By element of the chunk:
  std::vector<float> rate_multiplier_, decay_;
  std::vector<bool> averaged_;
  std::vector<float> first_,
      second_;  // v; Adam's m and v; RMSprop warm-up's m and d; FTRL's z and n; Adagrad's n
  bool all_averaged_ = false;
  uint64_t samples_ = 0;
  uint64_t updates_ = 0;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_REFERENCE_OPTIMIZER_H_
