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
  size_t nodes = 0;            // they are indices in order of their first rank
  std::vector<size_t> absent;  // of those, who is not in the job when it begins
  std::shared_ptr<const ConsistencyMode> mode;
  numerics::UpdateRule update;
  wire::Codec push_codec = wire::Codec::kNone;  // of sums that are not empty
  bool takes_sparse = false;                    // sums may be sparse besides
  AnswerRules answers;
  bool takes_first_weights = false;  // only the first node offers them, and the others ask for them
  bool says_rates = false;           // each push comes with the learning rate of its step
  uint64_t cut_every = 0;            // clocks from one image of a chunk to the next; 0: none
  bool keeps_previous = false;       // the weights of before the last clock
};

// The weights of a clock for a process that has taken its node's place.
struct PulledWeights {
  enum class State { kHere, kNotYet, kNowhere };
  State state = State::kNowhere;
  WeightVersion weights;
  uint64_t base = 0;  // answers that they have, where answers are encoded
};

// One chunk: watermark per node, weights, and who waits for an answer. The weights and the
// watermark change together, so each push is applied exactly once. The job's mode says when a
// push is applied and answered.
//
// A node has at most one unanswered push per chunk (pipeline depth 0).
//
// Threads: one.
class ChunkState {
 public:
  // All of it outlives this; `scratch` is the thread's.
  ChunkState(const kernels::Kernels& kernels, BufferPool& pool, numerics::EncoderScratch* scratch,
             const ChunkRules& rules, uint32_t elements, std::vector<OptimizerRun> runs);
  ChunkState(const ChunkState&) = delete;
  ChunkState& operator=(const ChunkState&) = delete;

  // Takes the first weights, which are finite. REQUIRES: !weights().seeded(), `elements` fp32.
  void Seed(const Bytes& weights, uint64_t checksum);
  // Goes on from an image in place of first weights: each node from its first push that is not in
  // the weights. Where the image is of another number of nodes, that is from the image's clock on.
  // All of it is copied. Errors: InvalidArgument naming what differs. REQUIRES:
  // !weights().seeded().
  absl::Status Restore(const ChunkImage& image);
  // Returns the weights that a node is to begin with, which asks for them, and their version: the
  // first ones, as long as some node has not pushed. Else those of now: the node goes on from an
  // image or has joined the job, or its process has taken another one's place, whose first answer
  // is whole. Where answers are encoded, what they go on from; where a node computes with no others
  // than it was given, those. REQUIRES: seeded.
  WeightVersion WeightsToBeginWith(size_t node) const;

  // Returns all that the chunk is, see ChunkCopy. `whole_clocks`: for another copy that is told of
  // whole clocks alone, see Follow, and so without what is there of incomplete ones.
  ChunkCopy Copy(bool whole_clocks);
  // Goes on from another copy of the chunk. Errors: InvalidArgument naming what does not fit; this
  // one is of no more use then. REQUIRES: nothing has come.
  absl::Status TakeCopy(const ChunkCopy& copy);

  // Returns the weights that the node makes its step of `clock` with once more. Where all nodes are
  // answered alike, they are those of before this clock: of now, or of the version before. Else
  // they are what WeightsToBeginWith returns. Not yet: the push before is not answered, or would
  // not be, of a node that joins. Nowhere: the node has pushed less, or they are gone. REQUIRES:
  // seeded.
  PulledWeights WeightsOf(size_t node, uint64_t clock) const;

  // Returns the images that were cut since the last call, by clock; `begin` is not known here.
  // REQUIRES: the answers that were due are encoded.
  std::vector<ChunkImage> TakeImages();

  const numerics::WeightState& weights() const { return weights_; }
  NodeCopies& copies() { return copies_; }

  // REQUIRES: weights().seeded(). Appends the answers that are due now, to this node and to others,
  // also where the push itself is refused.
  PushResult OnPush(Push push, std::vector<DueAnswer>* due);
  // Takes in all of a clock as another copy of the chunk has done; see ClockSums. Errors:
  // InvalidArgument: it is not the next one. REQUIRES: weights().seeded(), no push has been taken
  // since the last clock.
  absl::Status Follow(const ClockSum& clock, std::vector<DueAnswer>* due);
  // The sums that have been applied since they are kept; see ClockSums.
  ClockSums& sums() { return sums_; }
  // The node joins the job with push number `clock`; see ChunkNodes. REQUIRES: no node has pushed
  // that one.
  void Join(size_t node, uint64_t clock) { nodes_.Join(node, clock); }
  // The node pushes no more: it holds nobody up.
  void OnRetire(size_t node, absl::Time now, std::vector<DueAnswer>* due);
  // When OnTime is due; InfiniteFuture: never.
  absl::Time deadline() const { return mode_->deadline(); }
  void OnTime(absl::Time now, std::vector<DueAnswer>* due);
  // CUT is answered once every node has retired.
  void OnCut(size_t node, uint64_t clock, std::vector<DueAnswer>* due);

  // Returns what an answer to the node is to hold: the newest weights, or for one that asks again
  // those that it was given, if its mode computes with no others.
  WeightVersion WeightsFor(const DueAnswer& answer) const;

  // The newest clock at which an image was due; 0: none was.
  uint64_t last_cut() const { return cuts_.last(); }

  // Pushes received from a node, contiguous from clock 0.
  uint64_t Received(size_t node) const { return nodes_[node].received; }
  // The node's last push waits for its answer.
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
  // Decodes later. Where nobody is answered before a clock is complete, fp32 is checked when it is
  // added. Errors: MALFORMED, or of fp32 NOT_FINITE.
  PushResult CheckSum(const Push& push, Addend* addend) const;
  void CollectDue(std::vector<DueAnswer>* due);
  // The weights may hold all of one clock more, where pushes are applied on arrival.
  void CutIfDue();
  DueAnswer AnswerTo(size_t node, uint64_t gate) const;
  // A node without a copy of its own, that answers could add to.
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
  Bytes first_;  // where nodes ask for them, until all have pushed; else empty
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_STATE_H_
