#ifndef STRATA_TESTS_SIM_MODEL_NORM_MODEL_H_
#define STRATA_TESTS_SIM_MODEL_NORM_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata::sim {

// The weights of a job whose nodes are told mean gradients and apply the optimizer themselves,
// because it needs norms over all of them: plain loops over the whole arena, from the formulas of
// proto/job.proto, at a constant rate or those that are said. All nodes have the same weights after
// a clock, bit for bit.
class NormModel {
 public:
  // `record` with layout and placement; its optimizer is LARS, SGD or momentum SGD.
  explicit NormModel(const proto::JobRecord& record);

  void OnFirstWeights(ChunkId chunk, const std::vector<float>& weights);
  // Nodes are told the mean gradient of a clock.
  void OnMean(ChunkId chunk, uint64_t clock, absl::Span<const float> mean);
  // The chunk's weights after so many clocks; empty: not all means of these have been told.
  std::vector<float> After(uint64_t clocks, ChunkId chunk);

 private:
  struct Tensor {
    size_t begin = 0, end = 0;
    float rate = 1, decay = 1;  // multipliers
  };

  size_t BeginOf(ChunkId chunk) const { return size_t{chunk_elements_} * chunk.value(); }
  size_t ChunkElements(ChunkId chunk) const;
  bool Advance();
  // `step`: the one whose gradients these are.
  void Update(const std::vector<float>& mean, uint64_t step, std::vector<float>* weights);

  const proto::Job job_;
  const bool says_rates_;
  const uint32_t chunk_elements_;
  const size_t elements_;
  std::vector<Tensor> tensors_;
  std::vector<float> velocity_;
  std::vector<std::vector<float>> after_;                             // arenas, by clocks
  std::map<uint64_t, std::map<uint32_t, std::vector<float>>> means_;  // by clock and chunk
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_MODEL_NORM_MODEL_H_
