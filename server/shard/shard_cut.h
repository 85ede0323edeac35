#ifndef STRATA_SERVER_SHARD_SHARD_CUT_H_
#define STRATA_SERVER_SHARD_SHARD_CUT_H_

#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"

namespace strata::server {

// One shard's part of a checkpoint.
struct ShardCut : Cut<ChunkImage> {
  JobId job;
  ShardId shard;  // of the job
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_CUT_H_
