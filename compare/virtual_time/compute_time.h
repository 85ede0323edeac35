#ifndef STRATA_COMPARE_VIRTUAL_TIME_COMPUTE_TIME_H_
#define STRATA_COMPARE_VIRTUAL_TIME_COMPUTE_TIME_H_

#include <cstdint>

#include "absl/time/time.h"
#include "compare/virtual_time/cluster_file.h"

namespace strata::compare {

// The compute time of a rank in each step: a pure function of seed, rank and step, so it is the
// same in every mode.
class ComputeTime {
 public:
  // `group`: the node's group in `file`, which outlives this.
  ComputeTime(const ClusterFile& file, int group, uint64_t seed, uint32_t rank);

  // Returns the time of forward and backward pass.
  absl::Duration Of(uint64_t step) const;

 private:
  double Milliseconds(uint64_t step) const;
  // Draws from the normal distribution with deviation 1 (Box & Muller 1958).
  double Normal(uint64_t step) const;

  const proto::Compute& compute_;
  const std::vector<double>* trace_ = nullptr;
  const uint64_t key_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_COMPUTE_TIME_H_
