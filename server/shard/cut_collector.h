#ifndef STRATA_SERVER_SHARD_CUT_COLLECTOR_H_
#define STRATA_SERVER_SHARD_CUT_COLLECTOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/image/chunk_image.h"

namespace strata::server {

// All chunks of one shard of a job at one clock: the shard's part of a checkpoint.
struct ShardCut {
  JobId job;
  ShardId shard;  // of the job
  uint64_t clock = 0;
  std::vector<ChunkImage> images;  // by range
  std::string problem;             // why there are no images; empty: there are
};

// Gathers the images of a shard's chunks into cuts. What it holds is bounded: while kHeldMax cuts
// are there, of which not all images have come or which have been taken and not been let go of, a
// cut of a further clock has a problem in place of images.
//
// Threads: one.
class CutCollector {
 public:
  static constexpr size_t kHeldMax = 2;

  // `begins`: of each chunk, its first element in the arena.
  CutCollector(JobId job, ShardId shard, std::vector<uint64_t> begins);

  // Images of one chunk, by its index in `begins`: one for each clock, which ascend.
  void Add(size_t chunk, std::vector<ChunkImage> images);
  // Returns the cuts that are complete, and those that cannot be. The first count as held.
  std::vector<ShardCut> Take();
  // A cut that was taken is no longer in memory.
  void LetGo(uint64_t clock) { taken_.erase(clock); }

  // Bytes of images that wait for others of their clock, without weights that are the chunk's
  // still.
  uint64_t bytes() const { return bytes_; }

 private:
  void AddImage(size_t chunk, ChunkImage image);

  const JobId job_;
  const ShardId shard_;
  const std::vector<uint64_t> begins_;
  std::map<uint64_t, std::vector<ChunkImage>> open_;  // by clock; in any order
  std::map<uint64_t, size_t> skipped_;                // by clock: chunks that have come to it
  std::set<uint64_t> taken_;
  std::vector<ShardCut> due_;
  uint64_t bytes_ = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CUT_COLLECTOR_H_
