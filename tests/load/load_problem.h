#ifndef STRATA_TESTS_LOAD_LOAD_PROBLEM_H_
#define STRATA_TESTS_LOAD_LOAD_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "proto/processes.pb.h"

namespace strata::tests {

// What the load program trains: plain SGD on gradients that are small whole numbers, so that sums
// are exact and, where the number of nodes is a power of two, the weights are, too.
struct LoadProblem {
  uint32_t nodes = 8;
  uint64_t elements = 2048;
  uint32_t chunk_elements = 256;
  uint64_t steps = 20;

  proto::Job Job() const;
  proto::NodeReady Ready(uint32_t job_id) const;
  void FirstWeights(absl::Span<float> weights) const;
  // The gradient of one node, whose batch is one sample.
  void Gradients(uint32_t node, uint64_t step, absl::Span<float> gradients) const;
  // Whether the weights are those after all steps, computed directly. What is wrong; empty:
  // nothing.
  std::string Check(absl::Span<const float> weights) const;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_LOAD_LOAD_PROBLEM_H_
