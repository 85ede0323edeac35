#ifndef STRATA_SERVER_SHARD_COPY_FRAMES_H_
#define STRATA_SERVER_SHARD_COPY_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/frame.h"
#include "server/shard/chunk/chunk_copy.h"

namespace strata::server {

// Returns the frames that say a copy of a chunk, in order: what stands in ChunkCopy::head, then
// each vector. `header` has the job, the view and the chunk.
std::vector<wire::Frame> CopyFrames(const ChunkCopy& copy, const wire::Header& header);

// Joins such frames to copies, of one chunk after the other.
//
// Threads: one.
class CopyCollector {
 public:
  // Returns the copy that this frame, of the chunk, is the last of. Errors: InvalidArgument: it is
  // not the next one, says another size than the first one did, or is beyond `bytes_max`, for which
  // all vectors of a chunk have room.
  absl::StatusOr<std::optional<ChunkCopy>> Add(const wire::Frame& frame, uint64_t bytes_max);
  // Returns the bytes of the vectors that have come of a copy whose last frame has not.
  uint64_t bytes() const;

 private:
  std::optional<uint32_t> chunk_;  // that is on its way
  ChunkCopy copy_;
};

// The chunks that a primary has yet to say to a backup that began empty, and those that the backup
// has.
//
// Threads: one.
class BackupFill {
 public:
  explicit BackupFill(size_t chunks) : said_up_to_(chunks, 0) {}

  // Changes of a chunk that is not said yet are not said either: the copy will have them.
  bool IsSent(size_t chunk) const { return chunk < next_; }
  // Returns the next chunk to say; none: all have been.
  std::optional<size_t> next() const {
    return next_ < said_up_to_.size() ? std::optional(next_) : std::nullopt;
  }
  // The next chunk has been said; `last` is the number of its last change on the line.
  void OnSent(uint64_t last) { said_up_to_[next_++] = last; }
  // Returns how many chunks the backup lacks that has confirmed so many changes.
  size_t Missing(uint64_t acknowledged) const;

 private:
  std::vector<uint64_t> said_up_to_;  // by chunk
  size_t next_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_COPY_FRAMES_H_
