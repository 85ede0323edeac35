#ifndef STRATA_SERVER_SHARD_SHARD_REPORT_H_
#define STRATA_SERVER_SHARD_SHARD_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"
#include "proto/processes.pb.h"
#include "rows/table_spec.h"
#include "server/shard/rows_cuts.h"

namespace strata::server {

class ShardRows;

// One shard's part of a checkpoint.
struct ShardCut : Cut<ChunkImage> {
  JobId job;
  ShardId shard;  // of the job
};

// A piece of one shard's part of a checkpoint that has rows.
struct ShardRowsPiece : RowsPiece {
  JobId job;
  ShardId shard;  // of the job
  std::shared_ptr<const std::vector<rows::TableSpec>> tables;
  // The rows of a shard that has left its job, whose further pieces are taken from there. Null:
  // they come as further ones of these.
  std::shared_ptr<ShardRows> rest;
};

struct ShardCounters {
  uint64_t pushes = 0;
  uint64_t answers = 0;
  uint64_t duplicates = 0;
  uint64_t refused = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;

  void Add(const ShardCounters& other);
};

// The state of the backup of a shard here.
struct BackupState {
  JobId job;
  ShardId shard;
  uint32_t generation = 0;
  absl::Time waits_since =
      absl::InfiniteFuture();  // of the oldest change that it has not confirmed
  absl::Status refusal;        // not OK: why it no longer follows
  size_t chunks_missing = 0;   // that it has not received yet
  bool is_next = false;        // it will be the backup in this generation
};

// A shard's report of one job.
struct ShardReport {
  ShardCounters counters;
  std::vector<proto::NodeClock> nodes;  // not in every report of a large job
  uint64_t memory_bytes = 0;            // weights, optimizer state and held sums
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_REPORT_H_
