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

// Returns the frames that transfer a copy of a chunk, in order: the content of ChunkCopy::head,
// then each vector. `header` has the job, the view and the chunk.
std::vector<wire::Frame> CopyFrames(const ChunkCopy& copy, const wire::Header& header);

// Assembles copies from such frames, one chunk after the other.
//
// Threads: one.
class CopyCollector {
 public:
  // Returns the copy that this frame of the chunk completes. Errors: InvalidArgument: the frame is
  // not the next one, gives another size than the first one, or exceeds `bytes_max`, which has room
  // for all vectors of a chunk.
  absl::StatusOr<std::optional<ChunkCopy>> Add(const wire::Frame& frame, uint64_t bytes_max);
  // Returns the bytes of vectors of an incomplete copy.
  uint64_t bytes() const;

 private:
  std::optional<uint32_t> chunk_;  // that is being received
  ChunkCopy copy_;
};

// Tracks the chunks that a primary has yet to send to a backup that began empty, and those that the
// backup has.
//
// Threads: one.
class BackupFill {
 public:
  explicit BackupFill(size_t chunks) : said_up_to_(chunks, 0) {}

  // Changes of a chunk that has not been sent are not sent, either: the copy will contain them.
  bool IsSent(size_t chunk) const { return chunk < next_; }
  // Returns the next chunk to send; nullopt: all have been sent.
  std::optional<size_t> next() const {
    return next_ < said_up_to_.size() ? std::optional(next_) : std::nullopt;
  }
  // The next chunk has been sent; `last` is the number of its last change on the line.
  void OnSent(uint64_t last) { said_up_to_[next_++] = last; }
  // Returns how many chunks a backup lacks that has confirmed this many changes.
  size_t Missing(uint64_t acknowledged) const;

 private:
  std::vector<uint64_t> said_up_to_;  // by chunk
  size_t next_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_COPY_FRAMES_H_
