#ifndef STRATA_TESTS_SIM_CHECK_RING_CHECKER_H_
#define STRATA_TESTS_SIM_CHECK_RING_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/job/arena.h"
#include "proto/processes.pb.h"
#include "tests/sim/check/codec_model.h"
#include "tests/sim/check/layer_model.h"
#include "tests/sim/check/node_checker.h"
#include "tests/sim/check/payload.h"
#include "tests/sim/check/reference_optimizer.h"
#include "tests/sim/check/scenario.h"

namespace strata::sim {

// Checks a job whose nodes all-reduce: each node gets the weights of each clock once, and they are,
// bit for bit, those of an independent model in plain loops: all gradients in one place, added in
// the order that proto/job.proto says, one optimizer. Where nodes that die are dropped, each step
// has the gradients of those that the coordinator has decided on.
//
// A violation is one line that begins with the name of the invariant.
class RingChecker final : public NodeChecker {
 public:
  using Fail = std::function<void(const std::string& violation)>;

  // `record` with layout, placement and ring.
  RingChecker(const JobPlan& plan, const proto::JobRecord& record, Fail fail);

  void OnNodeStart(uint32_t node, uint32_t incarnation) override;
  void OnBegin(uint32_t node, uint32_t incarnation, ChunkId chunk,
               const std::vector<float>& weights) override;
  void OnPush(uint32_t node, ChunkId chunk, uint64_t clock) override;
  void OnSum(uint32_t, uint32_t, ChunkId, uint64_t, uint32_t, absl::Span<const float>) override {}
  void OnWeights(uint32_t node, ChunkId chunk, uint64_t clock,
                 absl::Span<const float> weights) override;
  void OnFinalWeights(uint32_t node, ChunkId chunk, const Bytes& weights) override;
  void OnNodeFinished(uint32_t node) override;
  void OnFinished() override;
  uint64_t pushes() const override { return pushes_; }
  uint64_t ModelHash() const override;
  bool is_reproducible() const override {
    return plan_.all_reduce != "AUTO" && rings_.size() == 1 && dropped_.empty();
  }

  // In a job that drops dead nodes: the coordinator has saved that a node is dropped. Below: it has
  // saved the next ring and its first step.
  void OnDropped(uint32_t node) { dropped_.insert(node); }
  void OnRingFormed(const proto::FormRing& forming);
  // A node stops its exchange and reports how many steps it has made. Below: it is told of a ring.
  void OnRingStopped(const proto::RingStopped& stopped);
  void OnRingTaken(uint32_t node, const proto::FormRing& forming);

 private:
  // The nodes, by position, that make the steps from a given one on.
  struct Ring {
    uint64_t from_clock = 0;
    std::vector<uint32_t> nodes;
  };
  // What nodes make of means, if they apply the optimizer to their own elements.
  struct Applied {
    ReferenceOptimizer optimizer;
    std::vector<float> weights;
    std::vector<std::vector<float>> clocks;  // the weights after each
  };
  struct Chunk {
    ReferenceOptimizer optimizer;
    std::vector<float> weights;              // after clocks.size() clocks
    std::vector<std::vector<float>> clocks;  // the weights after each
    std::vector<ReferenceEncoder> copies;    // if the job encodes: the nodes' values, by slice
    std::optional<Applied> applied;
  };

  // Progress of the nodes with a chunk, by node.
  struct Progress {
    std::vector<uint64_t> pushed, landed;
  };

  void Violate(const std::string& invariant, const std::string& what);
  // Restarts the model.
  void Begin();
  const std::vector<uint32_t>& NodesAt(uint64_t clock) const;
  // Over all chunks.
  uint64_t LandedOf(uint32_t node) const;
  // Returns the model's weights of the chunk after `clock`.
  std::vector<float> After(ChunkId chunk, uint64_t clock);
  // Returns the result of the optimizer in the ring.
  const std::vector<float>& ReducedAfter(ChunkId chunk, uint64_t clock);
  std::vector<float> SumOf(ChunkId chunk, uint64_t clock) const;
  // Returns the slice, of `slices`, that element i belongs to.
  static uint32_t OwnerOf(uint32_t elements, uint32_t i, uint32_t slices);
  float RingSum(const std::vector<std::vector<float>>& nodes, uint32_t elements, uint32_t i) const;
  static std::vector<float> HalvingSum(const std::vector<std::vector<float>>& nodes);
  // Values are rounded at each hop.
  std::vector<float> EncodedRingSum(const std::vector<std::vector<float>>& nodes,
                                    uint32_t elements) const;
  // Returns the elements [begin, end) of slice `slice`.
  std::pair<uint32_t, uint32_t> SliceOf(uint32_t elements, uint32_t slice) const;
  void Encode(Chunk* chunk) const;

  const JobPlan plan_;
  const proto::JobRecord record_;
  const bool halving_;
  const proto::Encoding encoding_;
  const wire::Codec codec_;
  const Payload payload_;
  const ChunkMap map_;
  const Fail fail_;
  std::vector<Chunk> chunks_;
  std::vector<Progress> progress_;  // by chunk
  std::vector<Ring> rings_;         // in order
  std::set<uint32_t> dropped_;
  std::map<uint32_t, uint32_t> stopped_;  // by node outside of a ring: the number of the ring it
                                          // awaits
  std::optional<NormModel> norms_;        // of the ring's reduced values
  uint64_t means_told_ = 0;               // clocks whose means it knows
  std::vector<uint32_t> unanswered_;      // by node
  uint64_t pushes_ = 0;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_RING_CHECKER_H_
