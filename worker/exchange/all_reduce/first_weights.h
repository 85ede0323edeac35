#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_FIRST_WEIGHTS_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_FIRST_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "common/wire/frame.h"

namespace strata::worker {

// One node's view of the first weights of an all-reduce. Either all nodes offer the same weights
// and compare checksums with their peers (SEED), or all begin with those of rank 0: its node sends
// them to its peers, which forward them, so most nodes get them more than once (FIRST).
//
// A pure state machine. Threads: one.
class FirstWeights {
 public:
  // `links`: the number of links to peers, counted from 0.
  FirstWeights(const ChunkMap& map, size_t links, bool are_of_rank_0)
      : map_(map), are_of_rank_0_(are_of_rank_0), known_(map.chunks()), compared_(links, 0) {}

  bool are_of_rank_0() const { return are_of_rank_0_; }
  // Takes the node's weights of the chunk: its own, or a peer's.
  void Add(ChunkId chunk, const Bytes& weights);
  // Returns whether every chunk's weights are known, and compared with all peers if necessary.
  bool settled() const;

  struct Message {
    wire::Header header;
    Bytes payload;
  };
  // Returns the SEEDs for every link. REQUIRES: all chunks were added.
  std::vector<Message> Seeds() const;
  // Takes a SEED of the peer of that name. Errors: InvalidArgument (another chunk is due),
  // FailedPrecondition (other weights).
  absl::Status OnSeed(size_t link, const std::string& peer, const wire::Frame& frame);

  // Returns a FIRST of the chunk.
  Message First(ChunkId chunk, const Bytes& weights) const;
  // Takes a FIRST of that peer. Returns whether the chunk's weights were unknown: Add must follow.
  // Errors: as OnSeed.
  absl::StatusOr<bool> OnFirst(const std::string& peer, const wire::Frame& frame);

 private:
  const ChunkMap map_;
  const bool are_of_rank_0_;
  std::vector<std::optional<uint64_t>> known_;  // checksums by chunk
  size_t added_ = 0;
  std::vector<uint32_t> compared_;  // checksums, by link
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_FIRST_WEIGHTS_H_
