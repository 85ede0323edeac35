#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "numerics/weight_state.h"
#include "server/shard/chunk/chunk_copy.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"
#include "server/shard/chunk/node_copies.h"

namespace strata::server {

// The rules that all chunks of a job share.
struct ChunkRules {
  size_t nodes = 0;            // indices in order of their first rank
  std::vector<size_t> absent;  // indices of nodes that are not in the job at its start
  std::shared_ptr<const ConsistencyMode> mode;
  numerics::UpdateRule update;
  wire::Codec push_codec = wire::Codec::kNone;  // for sums that are not empty
  bool takes_sparse = false;                    // sums may also be sparse
  AnswerRules answers;
  bool takes_first_weights = false;  // only the first node offers first weights, and the others
                                     // request them
  bool says_rates = false;           // each push comes with the learning rate of its step
  uint64_t cut_every = 0;            // clocks between images of a chunk; 0: none
  bool keeps_previous = false;       // keeps the weights before the last clock
};

// The weights of a clock for a replacement process.
struct PulledWeights {
  enum class State { kHere, kNotYet, kNowhere };
  State state = State::kNowhere;
  WeightVersion weights;
  uint64_t base = 0;  // number of answers in them, if answers are encoded
};

// One chunk: a watermark per node, the weights, and the nodes that wait for an answer. Weights and
// watermark change together, so each push is applied exactly once. The job's mode decides when a
// push is applied and answered.
//
// A node has at most one unanswered push per chunk (pipeline depth 0).
//
// Threads: one.
class ChunkState {
 public:
  // The arguments outlive this object; `scratch` is the thread's.
  ChunkState(const kernels::Kernels& kernels, BufferPool& pool, numerics::EncoderScratch* scratch,
             const ChunkRules& rules, uint32_t elements, std::vector<OptimizerRun> runs);
  ChunkState(const ChunkState&) = delete;
  ChunkState& operator=(const ChunkState&) = delete;

  // Sets the first weights, which are finite. REQUIRES: !weights().seeded(), `elements` fp32.
  void Seed(const Bytes& weights, uint64_t checksum);
  // Continues from an image instead of first weights: each node from its first push that is not in
  // the weights. If the image has another number of nodes, all continue from the image's clock.
  // Everything is copied. Errors: InvalidArgument naming what differs. REQUIRES:
  // !weights().seeded().
  absl::Status Restore(const ChunkImage& image);
  // Returns the weights that a node begins with, on request, and their version: the first ones
  // until every node has pushed; otherwise the current ones, because the node resumes from an
  // image, has joined the job, or has a new process, whose first answer is whole. If answers are
  // encoded, returns the node's copy, which answers add to; if nodes compute only with weights
  // given to them, the ones given last. REQUIRES: seeded.
  WeightVersion WeightsToBeginWith(size_t node) const;

  // Returns the full state of the chunk, see ChunkCopy. `whole_clocks`: for a copy that receives
  // only whole clocks (see Follow), omits incomplete ones.
  ChunkCopy Copy(bool whole_clocks);
  // Continues from another copy of the chunk. Errors: InvalidArgument naming the conflict; this
  // chunk is unusable then. REQUIRES: nothing has been received.
  absl::Status TakeCopy(const ChunkCopy& copy);

  // Returns the weights with which the node repeats its step of `clock`. If all nodes get the same
  // answers, these are the weights before this clock: the current or the previous version.
  // Otherwise what WeightsToBeginWith returns. kNotYet: the previous push is unanswered, or, for a
  // joining node, would be. kNowhere: the node has pushed less, or the weights are gone. REQUIRES:
  // seeded.
  PulledWeights WeightsOf(size_t node, uint64_t clock) const;

  // Returns the images that were cut since the last call, by clock; `begin` is not set.
  // REQUIRES: the due answers are encoded.
  std::vector<ChunkImage> TakeImages();

  const numerics::WeightState& weights() const { return weights_; }
  NodeCopies& copies() { return copies_; }

  // REQUIRES: weights().seeded(). Appends the answers that are due now, to this node and others,
  // even if the push itself is refused.
  PushResult OnPush(Push push, std::vector<DueAnswer>* due);
  // Applies a whole clock as another copy of the chunk has done; see ClockSums. Errors:
  // InvalidArgument: it is not the next one. REQUIRES: weights().seeded(), no push has been
  // received since the last clock.
  absl::Status Follow(const ClockSum& clock, std::vector<DueAnswer>* due);
  // The applied sums, once they are kept; see ClockSums.
  ClockSums& sums() { return sums_; }
  // The node joins the job with push number `clock`; see ChunkNodes. REQUIRES: no node has pushed
  // that clock.
  void Join(size_t node, uint64_t clock) { nodes_.Join(node, clock); }
  // The node pushes no more, and blocks nobody.
  void OnRetire(size_t node, absl::Time now, std::vector<DueAnswer>* due);
  // When OnTime is due; InfiniteFuture: never.
  absl::Time deadline() const { return mode_->deadline(); }
  void OnTime(absl::Time now, std::vector<DueAnswer>* due);
  // CUT is answered once every node has retired.
  void OnCut(size_t node, uint64_t clock, std::vector<DueAnswer>* due);

  // Returns the weights for an answer to the node: the newest, or for a repeated request those that
  // the node was given, if its mode computes only with these.
  WeightVersion WeightsFor(const DueAnswer& answer) const;

  // The newest clock at which an image was due; 0: none was.
  uint64_t last_cut() const { return cuts_.last(); }

  // Pushes received from a node, contiguous from clock 0.
  uint64_t Received(size_t node) const { return nodes_[node].received; }
  // Returns whether the node's last push is unanswered.
  bool IsWaiting(size_t node) const { return nodes_[node].waiting; }
  bool IsRetired(size_t node) const { return nodes_[node].retired; }
  // See ChunkNodes.
  uint64_t MinClock() const { return nodes_.MinClock(); }
  // Gradient buffers held for incomplete clocks.
  size_t held() const { return mode_->held(); }
  // Bytes of weights, optimizer state, the nodes' copies and what the mode holds.
  size_t bytes() const {
    const bool is_shared = first_.data() == weights_.weights().data();
    return weights_.bytes() + copies_.bytes() + mode_->bytes() + (is_shared ? 0 : first_.size());
  }

 private:
  PushResult OnDuplicate(const Push& push, std::vector<DueAnswer>* due);
  PushResult Check(const Push& push) const;
  // Makes the addend; decoding happens later. If nobody is answered before a clock is complete,
  // fp32 is checked when it is added. Errors: MALFORMED, or for fp32 NOT_FINITE.
  PushResult CheckSum(const Push& push, Addend* addend) const;
  void CollectDue(std::vector<DueAnswer>* due);
  // If pushes are applied on arrival, the weights may now contain one whole clock more.
  void CutIfDue();
  DueAnswer AnswerTo(size_t node, uint64_t gate) const;
  // Returns whether the node is new and has no copy of its own that answers could add to.
  bool IsNewWithoutCopy(size_t node) const {
    return nodes_.IsNew(node) && !rules_.mode->answers_alike();
  }

  const kernels::Kernels& kernels_;
  const ChunkRules& rules_;
  numerics::WeightState weights_;
  NodeCopies copies_;
  ChunkNodes nodes_;
  ChunkCuts cuts_;
  ClockSums sums_;
  const std::unique_ptr<ChunkMode> mode_;  // works on weights_ and nodes_
  Bytes first_;  // if nodes request them, until all have pushed; otherwise empty
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_
