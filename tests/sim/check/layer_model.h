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

// The weights of a job whose nodes receive mean gradients and apply the optimizer themselves,
// because it needs norms over all of them. Plain loops over the whole arena, from the formulas of
// proto/job.proto, with a constant rate or the rates that the job reports. All nodes have
// bit-identical weights after a clock.
class NormModel {
 public:
  // `record` has layout and placement; its optimizer is LARS, SGD or momentum SGD.
  explicit NormModel(const proto::JobRecord& record);

  void OnFirstWeights(ChunkId chunk, const std::vector<float>& weights);
  // Nodes receive the mean gradient of a clock.
  void OnMean(ChunkId chunk, uint64_t clock, absl::Span<const float> mean);
  // Returns the chunk's weights after this many clocks; empty: not all their means are known yet.
  std::vector<float> After(uint64_t clocks, ChunkId chunk);

 private:
  struct Tensor {
    size_t begin = 0, end = 0;
    float rate = 1, decay = 1;  // multipliers
  };

  size_t BeginOf(ChunkId chunk) const { return size_t{chunk_elements_} * chunk.value(); }
  size_t ChunkElements(ChunkId chunk) const;
  bool Advance();
  // `step`: the step of these gradients.
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

// What the nodes of a job with local steps have after each step, and what they push at the end of a
// round, bit for bit: plain loops, from the formulas of proto/job.proto. It also models nodes that
// clip their gradients, and nodes that apply the optimizer to mean gradients (NormModel). In other
// jobs a push is the sum, and there is nothing to model.
class LayerModel {
 public:
  // `record` has layout and placement; the job makes `steps` steps in all.
  LayerModel(const proto::JobRecord& record, uint64_t steps);

  bool has_local_steps() const { return local_steps_ > 0; }
  // Name of the invariant that is violated if nodes deviate.
  const char* invariant() const {
    return norms_ || clip_ > 0 ? "norms follow their formula" : "local steps follow their formula";
  }
  // Number of clocks of the exchange.
  uint64_t rounds() const { return RoundOf(steps_ - 1) + 1 + (has_rest() ? 1 : 0); }
  uint64_t RoundOf(uint64_t step) const { return has_local_steps() ? step / local_steps_ : step; }
  // The last step of a round, whose learning rate the push carries.
  uint64_t LastStepOf(uint64_t round) const {
    return has_local_steps() ? std::min((round + 1) * local_steps_, steps_) - 1 : round;
  }
  // Returns true if the weights after the step come from the exchange.
  bool EndsRound(uint64_t step) const {
    return !has_local_steps() || (step + 1) % local_steps_ == 0;
  }

  // A process's push.
  struct Push {
    ChunkId chunk;
    uint64_t clock = 0;
    uint32_t samples = 0;
    std::vector<float> values;
  };

  void OnNodeStart(uint32_t node, uint32_t incarnation);
  void OnFirstWeights(ChunkId chunk, const std::vector<float>& weights);
  // A process has summed its ranks' gradients of a step. Returns what it pushes now.
  std::vector<Push> OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t step,
                          uint32_t samples, absl::Span<const float> sum);
  // A shard has answered a process. Call it for jobs whose nodes derive their own weights from
  // that.
  void OnAnswer(uint32_t node, ChunkId chunk, uint64_t round, absl::Span<const float> weights);
  // Returns true if nodes' weights after a round differ from those they receive.
  bool is_own() const { return pull_ > 0 || threshold_ > 0 || norms_; }
  // A process has weights for its next step. Returns what is wrong with them; "": nothing.
  std::string OnTaken(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t step,
                      absl::Span<const float> weights);
  // A process has the job's final weights. Returns what is wrong with them; "": nothing.
  std::string OnFinal(ChunkId chunk, absl::Span<const float> weights);
  // Returns what is wrong with a push of these values, fp32 or sparse, that is accepted for the
  // first time; "": nothing.
  std::string CheckPush(const wire::Header& push, const std::vector<float>& values) const;

 private:
  struct Chunk {
    ReferenceOptimizer optimizer;
    std::vector<float> local, start;
    uint32_t samples = 0;       // since start
    Push push;                  // the last one
    std::vector<float> unsent;  // of the last one
  };

  // Node and incarnation. A push without values: none yet.
  using Process = std::pair<uint32_t, uint32_t>;
  Push Submit(const Process& process, ChunkId chunk, uint64_t step, uint32_t samples,
              const std::vector<float>& sum);
  std::vector<Push> Clip(const Process& process, ChunkId chunk, uint64_t step, uint32_t samples,
                         const std::vector<float>& sum);

  const proto::JobRecord record_;
  // Returns true if insignificant changes are pushed in a round of their own at the end.
  bool has_rest() const { return threshold_ > 0 && steps_ % local_steps_ == 0; }
  void KeepInsignificant(Chunk* chunk) const;
  void PushRest(Chunk* chunk) const;
  // Returns the weights that a process derives from those it received.
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
  // By node, chunk and round: what the node received.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::vector<std::vector<float>>> told_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_LAYER_MODEL_H_
