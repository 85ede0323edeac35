#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_REDUCTION_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_REDUCTION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"
#include "common/job/trace_log.h"
#include "common/wire/frame.h"
#include "kernels/kernels.h"
#include "numerics/checked_payload.h"
#include "numerics/encoder.h"
#include "numerics/weight_state.h"
#include "worker/exchange/all_reduce/reduce_plan.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// A chunk's fp32 elements, set piece by piece; later pieces override earlier ones.
//
// Threads: one.
class SlicePieces {
 public:
  // `pool` outlives it.
  explicit SlicePieces(BufferPool* pool) : pool_(pool) {}

  void Add(uint32_t first_element, Bytes floats) {
    pieces_.push_back({first_element, std::move(floats)});
  }
  // Returns elements [begin, end), without copying if one piece has them all. REQUIRES: they are
  // set.
  Bytes View(uint32_t begin, uint32_t end) const;
  void Clear() { pieces_.clear(); }

 private:
  struct Piece {
    uint32_t begin = 0;
    Bytes floats;
    uint32_t end() const { return begin + static_cast<uint32_t>(floats.float_count()); }
  };

  BufferPool* pool_;
  std::vector<Piece> pieces_;
};

// The common rules of all chunks of a job on one node; outlive them.
struct ReductionRules {
  const kernels::Kernels* kernels = nullptr;
  BufferPool* pool = nullptr;
  ReducePlan plan;
  numerics::UpdateRule update;
  // Encodes sums and weights in transit, without feedback or state.
  numerics::Compression compression = numerics::Compression::kNone;
  TraceLog* trace = nullptr;  // records the node's updates; null: none

  // Returns the rules of the node at `position` of a record that CheckRing has accepted.
  // REQUIRES: position < the nodes of the view.
  static ReductionRules Of(const proto::JobRecord& record, const kernels::Kernels& kernels,
                           BufferPool* pool, uint32_t position, TraceLog* trace);
};

// The actions of a chunk, in order.
struct ReductionActions {
  struct Send {
    uint32_t peer = 0;    // position
    wire::Header header;  // op, chunk, clock, counts, slice
    Bytes payload;
  };
  struct Delivery {
    uint32_t first_element = 0;
    Bytes weights;
    std::optional<numerics::CheckedPayload> delta;  // `weights` are this payload, to be added
  };
  std::vector<Send> sends;
  std::vector<Delivery> deliveries;
  bool landed = false;  // `deliveries` complete the clock
};

// One chunk's progress through the steps of its node's plan, clock after clock. Frames may come
// before their step is due, also for the next clock.
//
// If the job encodes, sums are rounded at each hop. The node that updates a slice encodes, once,
// what all nodes lack of its weights. The others forward that payload unchanged, a frame for each
// slice. All nodes, including that one, add it to what they have: the same bits everywhere.
//
// A pure state machine; buffers come from the pool. Threads: one.
class ChunkReduction {
 public:
  // `rules` outlive it. REQUIRES: `map` cuts the layout, which is valid.
  ChunkReduction(const ReductionRules* rules, const proto::Layout& layout, const ChunkMap& map,
                 ChunkId chunk);

  // Sets the chunk's first weights; its own part is copied.
  void Seed(const Bytes& first_weights);

  // The arena's element at which its own part begins; none: it has no part of the chunk.
  std::optional<uint64_t> own_begin() const {
    if (own_begin_ == own_end_) return std::nullopt;
    return offset_ + own_begin_;
  }
  uint32_t own_elements() const { return own_end_ - own_begin_; }
  // Returns the state of the node's own part: weights are shared, the rest is copied. None: it has
  // no part of the chunk. REQUIRES: seeded, not begun in this clock.
  std::optional<ChunkImage> Image() const;
  // Continues from the image of its own part instead of first weights, at the image's clock;
  // everything is copied. None: it has no part, and resumes at `clock`. Errors: InvalidArgument
  // naming what differs. REQUIRES: not seeded, finite.
  absl::Status Restore(const std::optional<ChunkImage>& image, uint64_t clock);

  // Starts at this clock instead of 0. REQUIRES: not begun.
  void StartAt(uint64_t clock) { clock_ = clock; }

  // Bytes of the encoder's copy of what all nodes have of its own part.
  size_t copy_bytes() const { return copy_ == nullptr ? 0 : copy_->elements() * sizeof(float); }

  // Number of clocks whose weights have landed.
  uint64_t clock() const { return clock_; }
  // Takes the node's sum for clock(). Errors: OnFrame's, for earlier frames. REQUIRES: seeded; not
  // begun in this clock.
  absl::Status Begin(Bytes sum, const StepFacts& step, ReductionActions* actions);
  // Handles a REDUCE or GATHER of this chunk. Errors: InvalidArgument saying what is wrong with it.
  absl::Status OnFrame(uint32_t peer, const wire::Frame& frame, ReductionActions* actions);

 private:
  using Inbox = std::map<uint32_t, std::deque<wire::Frame>>;  // by peer

  uint32_t SliceBegin(uint32_t slice) const;
  absl::Status Advance(ReductionActions* actions);
  // Returns false if a frame that the step needs has not come.
  absl::StatusOr<bool> Do(const ReduceStep& step, ReductionActions* actions);
  bool encodes() const { return rules_->compression != numerics::Compression::kNone; }
  // Returns the part of a step that one frame carries, of PartCount(step).
  uint32_t PartCount(const ReduceStep& step) const;
  ReduceStep Part(const ReduceStep& step, uint32_t part) const;
  absl::Status Send(const ReduceStep& part, ReductionActions* actions);
  absl::StatusOr<Bytes> Encoded(numerics::Encoder* encoder, const Bytes& floats) const;
  absl::Status Take(const ReduceStep& part, const wire::Frame& frame, ReductionActions* actions);
  absl::StatusOr<numerics::CheckedPayload> Checked(const Bytes& payload, uint32_t elements) const;
  absl::Status Add(const ReduceStep& step, const wire::Frame& frame);
  absl::Status Update(ReductionActions* actions);
  absl::Status Deliver(const ReduceStep& part, Bytes weights, ReductionActions* actions);
  absl::Status CheckDue(const ReduceStep& step, const wire::Header& header) const;

  // Starts to track what all nodes have of its own part. REQUIRES: encodes().
  absl::Status FollowFrom(const Bytes& own);

  const ReductionRules* rules_;
  const ChunkId chunk_;
  const uint64_t offset_;  // of the chunk in the arena
  const uint32_t elements_;
  const uint32_t own_begin_, own_end_;  // the elements that this node updates
  numerics::WeightState weights_;       // of the node's own part
  // Tracks what all nodes have of those weights; null if there are none or nothing is encoded.
  std::unique_ptr<numerics::Encoder> copy_;

  uint64_t clock_ = 0;
  bool begun_ = false;
  size_t next_ = 0;                     // index into the plan's steps
  uint32_t taken_ = 0;                  // parts of that step that were taken
  SlicePieces sums_, gathered_;         // of this clock
  std::map<uint32_t, Bytes> payloads_;  // instead of gathered_, if they are encoded: by slice
  std::vector<uint32_t> samples_;       // in the sum, by slice
  float rate_ = 0;                      // of the step, from this node's ranks
  Inbox inbox_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_REDUCTION_H_
