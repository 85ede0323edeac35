#ifndef STRATA_SERVER_SHARD_SHARD_CHUNKS_H_
#define STRATA_SERVER_SHARD_SHARD_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/image/chunk_image.h"
#include "common/wire/frame.h"
#include "kernels/kernels.h"
#include "numerics/encoder.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/following_copy.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// The chunks of one job on one shard, by their index in the plan, with their deadlines. They use
// the time of the shard's primary: a backup learns it from the changes.
//
// Threads: one.
class ShardChunks {
 public:
  // The arguments outlive this object; `scratch` is the thread's.
  ShardChunks(const ShardPlan& plan, const kernels::Kernels& kernels, BufferPool& pool,
              numerics::EncoderScratch* scratch);

  size_t size() const { return chunks_.size(); }
  ChunkState& operator[](size_t chunk) { return *chunks_[chunk]; }
  const ChunkState& operator[](size_t chunk) const { return *chunks_[chunk]; }

  // Returns the shard's time.
  absl::Time TimeAt(absl::Time now) const { return now + ahead_; }
  // The shard's time is `time` now.
  void SetTime(absl::Time time, absl::Time now) { ahead_ = time - now; }

  // Calls with the chunk, and updates its deadline.
  void Change(size_t chunk, absl::FunctionRef<void(ChunkState&)> call);
  // When the next chunk is due, by local time; InfiniteFuture: never.
  absl::Time deadline() const;
  // Returns a chunk that is due; nullopt: none is.
  std::optional<size_t> NextDue(absl::Time now) const;

  // Lets nodes that have joined since the job began join the chunk, too, if they have not.
  void JoinAll(size_t chunk);
  // Errors: FailedPrecondition: a node has already pushed the clock.
  absl::Status CheckAhead(uint64_t clock) const;

  // Restores the chunks from images of a checkpoint; images of other chunks are ignored. Errors:
  // InvalidArgument naming the chunk that does not fit, or comes twice.
  absl::Status Restore(absl::Span<const ChunkImage> images);
  // Errors: InvalidArgument naming the first chunk that has not been restored.
  absl::Status CheckRestored() const;

  // Returns the header of a change of the chunk.
  wire::Header HeaderOf(wire::Op op, size_t chunk) const;
  // Sends chunks to a copy that lacks them, a few at a time. `keeps_sums`: the sums of each are
  // kept from then on, to be sent too.
  void Fill(FollowingCopy* copy, bool keeps_sums, absl::Time now);

  uint64_t bytes() const;

 private:
  const ShardPlan& plan_;
  std::vector<std::unique_ptr<ChunkState>> chunks_;    // pointers, because a chunk does not move
  std::set<std::pair<absl::Time, size_t>> deadlines_;  // of chunks with a deadline
  std::vector<absl::Time> known_deadlines_;            // by chunk, equal to deadlines_
  absl::Duration ahead_;                               // the shard's time minus local time
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_CHUNKS_H_
