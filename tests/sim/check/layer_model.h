#ifndef STRATA_TESTS_SIM_CHECK_LAYER_MODEL_H_
#define STRATA_TESTS_SIM_CHECK_LAYER_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/ids.h"
#include "common/wire/frame.h"
#include "proto/record.pb.h"
#include "tests/sim/check/reference_optimizer.h"

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

// What the nodes of one job with local steps have after each of their steps, and what they push at
// the end of a round, bit for bit: plain loops, from the formulas of proto/job.proto. Likewise
// where they clip their gradients, or apply the optimizer to what they are told (NormModel). In
// other jobs a push is the sum, and there is nothing to know.
class LayerModel {
 public:
  // `record` with layout and placement; the job makes `steps` in all.
  LayerModel(const proto::JobRecord& record, uint64_t steps);

  bool has_local_steps() const { return local_steps_ > 0; }
  // What is violated where nodes do otherwise.
  const char* invariant() const {
    return norms_ || clip_ > 0 ? "norms follow their formula" : "local steps follow their formula";
  }
  // Clocks of the exchange.
  uint64_t rounds() const { return RoundOf(steps_ - 1) + 1 + (has_rest() ? 1 : 0); }
  uint64_t RoundOf(uint64_t step) const { return has_local_steps() ? step / local_steps_ : step; }
  // The last step in a round: the one whose learning rate its push says.
  uint64_t LastStepOf(uint64_t round) const {
    return has_local_steps() ? std::min((round + 1) * local_steps_, steps_) - 1 : round;
  }
  // True if the weights after the step come from the exchange.
  bool EndsRound(uint64_t step) const {
    return !has_local_steps() || (step + 1) % local_steps_ == 0;
  }

  // What a process pushes.
  struct Push {
    ChunkId chunk;
    uint64_t clock = 0;
    uint32_t samples = 0;
    std::vector<float> values;
  };

  void OnNodeStart(uint32_t node, uint32_t incarnation);
  void OnFirstWeights(ChunkId chunk, const std::vector<float>& weights);
  // A process has summed its ranks' gradients of a step. What it pushes now.
  std::vector<Push> OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t step,
                          uint32_t samples, absl::Span<const float> sum);
  // A shard has answered a process, where nodes make weights of their own of that.
  void OnAnswer(uint32_t node, ChunkId chunk, uint64_t round, absl::Span<const float> weights);
  // True if nodes have other weights after a round than they are told.
  bool is_own() const { return pull_ > 0 || threshold_ > 0 || norms_; }
  // A process has weights for its next step. What is wrong with them; "": nothing.
  std::string OnTaken(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t step,
                      absl::Span<const float> weights);
  // A process has the job's final weights. What is wrong with them; "": nothing.
  std::string OnFinal(ChunkId chunk, absl::Span<const float> weights);
  // What is wrong with a push of these values, fp32 or sparse, that is taken for the first time;
  // "": nothing.
  std::string CheckPush(const wire::Header& push, const std::vector<float>& values) const;

 private:
  struct Chunk {
    ReferenceOptimizer optimizer;
    std::vector<float> local, start;
    uint32_t samples = 0;       // since start
    Push push;                  // the last one
    std::vector<float> unsent;  // of the last one
  };

  // The push of a sum by a node and incarnation; without values: none yet.
  using Process = std::pair<uint32_t, uint32_t>;
  Push Submit(const Process& process, ChunkId chunk, uint64_t step, uint32_t samples,
              const std::vector<float>& sum);
  std::vector<Push> Clip(const Process& process, ChunkId chunk, uint64_t step, uint32_t samples,
                         const std::vector<float>& sum);

  const proto::JobRecord record_;
  // True if what was not significant is pushed in a round of its own.
  bool has_rest() const { return threshold_ > 0 && steps_ % local_steps_ == 0; }
  void KeepInsignificant(Chunk* chunk) const;
  void PushRest(Chunk* chunk) const;
  // What a process makes of what it is told.
  std::vector<float> Own(const Chunk& chunk, const std::vector<float>& told) const;
  std::string TakeOwn(Chunk* chunk, uint32_t node, ChunkId id, uint64_t round,
                      absl::Span<const float> weights) const;

  const uint64_t steps_, local_steps_;
  const float pull_;       // of elastic averaging: a / (1 - a); 0: another mode
  const float threshold_;  // of significance; 0: all is pushed
  const float clip_;       // of a node's own gradients; 0: not at all
  const bool double_buffering_;
  std::optional<NormModel> norms_;
  uint32_t ranks_ = 0;
  std::map<uint32_t, std::vector<float>> first_weights_;    // by chunk
  std::map<Process, std::map<uint32_t, Chunk>> processes_;  // by chunk
  // By chunk: sums of a step that wait for the others, and clipped pushes.
  std::map<Process, std::map<uint32_t, Push>> waiting_, clipped_;
  // By node, chunk and round: what it was told.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::vector<std::vector<float>>> told_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_LAYER_MODEL_H_
