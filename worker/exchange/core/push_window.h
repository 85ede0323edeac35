#ifndef STRATA_WORKER_EXCHANGE_CORE_PUSH_WINDOW_H_
#define STRATA_WORKER_EXCHANGE_CORE_PUSH_WINDOW_H_

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"

namespace strata::worker {

// Chooses the chunk that a node pushes next to one shard, with at most `window` pushes unanswered.
//
// One slot is reserved for the lowest unpushed (clock, chunk) of the shard; the others go to the
// most urgent ready chunk: older clocks first, then the highest index, because the layers that the
// next forward needs first are last in the arena. The reserved slot prevents deadlock. Consider the
// lowest chunk that some node still waits for. Everything below it is answered, so for a node that
// has not pushed it, it is the lowest, and the reserved slot is free. Hence all nodes push it, it
// completes, and the argument repeats.
//
// A pure state machine; one thread.
class PushWindow {
 public:
  enum class Reserve { kLowest, kNothing };  // kNothing: only for tests, to show what goes wrong

  // `chunks`: all that the shard holds, each once. REQUIRES: window >= 1.
  PushWindow(const std::vector<ChunkId>& chunks, uint32_t window,
             Reserve reserve = Reserve::kLowest);

  // The chunk may be pushed for its next clock. REQUIRES: a chunk of this shard. The caller does
  // not repeat the call before the push; the simulator checks that.
  void Ready(ChunkId chunk);

  // Returns the chunk to push now, which then counts as unanswered; none if no ready chunk may be
  // pushed.
  std::optional<ChunkId> Next();

  // REQUIRES: returned by Next, and not answered since.
  void Answered(ChunkId chunk);

  uint32_t unanswered() const { return urgent_ + (reserved_ ? 1 : 0); }

 private:
  struct State {
    uint64_t clock = 0;  // of the next push
    bool ready = false;
    bool holds_reserved = false;
  };
  ChunkId Push(ChunkId chunk, bool reserved);

  const uint32_t urgent_max_;
  const bool reserve_;
  absl::flat_hash_map<ChunkId, State> states_;
  std::set<std::pair<uint64_t, int64_t>> ready_;     // (clock, -chunk): most urgent first
  std::set<std::pair<uint64_t, ChunkId>> unpushed_;  // lowest first
  uint32_t urgent_ = 0;
  bool reserved_ = false;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_PUSH_WINDOW_H_
