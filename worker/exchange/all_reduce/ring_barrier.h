#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_RING_BARRIER_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_RING_BARRIER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/wire/frame.h"
#include "worker/exchange/all_reduce/chunk_reduction.h"

namespace strata::worker {

// A word that goes round once a node has made all of its clocks: it has passed when all nodes have
// said it. An all-reduce of a chunk of one element that no job has, at the clock after the last
// one, so that nobody takes it for a step.
//
// A pure state machine. Threads: one.
class RingBarrier {
 public:
  // `chunk`: one after the job's last one. REQUIRES: weights are means.
  RingBarrier(const ReductionRules& rules, ChunkId chunk);
  RingBarrier(const RingBarrier&) = delete;
  RingBarrier& operator=(const RingBarrier&) = delete;

  ChunkId chunk() const { return chunk_; }
  // This node has made so many clocks, once. Errors: OnFrame's, of frames that came before.
  absl::Status Enter(uint64_t clocks, ReductionActions* actions);
  // A frame of its chunk. Errors: InvalidArgument, what is wrong with it.
  absl::Status OnFrame(uint32_t peer, const wire::Frame& frame, ReductionActions* actions);
  bool is_entered() const { return is_entered_; }
  bool is_passed() const { return is_passed_; }

 private:
  void StartAt(uint64_t clock);

  const ChunkId chunk_;
  const ReductionRules rules_;  // that note nothing
  ChunkReduction word_;
  bool is_started_ = false;  // its clock is known
  bool is_entered_ = false, is_passed_ = false;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_RING_BARRIER_H_
