#ifndef STRATA_SERVER_SHARD_SHARD_PLAN_H_
#define STRATA_SERVER_SHARD_SHARD_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "common/job/views.h"
#include "proto/record.pb.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {

// A chunk that one shard holds.
struct OwnChunk {
  ChunkId id;
  uint32_t elements = 0;
  uint64_t begin = 0;       // its first element in the arena
  uint32_t connection = 0;  // of a node's, over which the chunk's answers go
  std::vector<OptimizerRun> runs;
};

// A checked job record, from the point of view of one of its shards.
struct ShardPlan {
  JobId job;
  ShardId shard;  // of the job
  uint64_t token = 0;
  uint64_t cluster = 0;
  uint32_t view = 0;
  uint32_t generation = 0;
  uint32_t heard_from = 0;    // the generation since which nodes ask this copy of the shard
  std::vector<NodeId> nodes;  // in order of their first rank; `ranks` goes along
  NodeRanks ranks;
  std::shared_ptr<Views> views;  // who takes part when, as far as that is decided; also in `ranks`
  uint32_t connections = 1;      // of each node
  bool resumes = false;          // from a checkpoint, so that no node offers first weights
  bool lets_begin_late = false;  // nodes: in place of those that die, or as they join
  std::vector<OwnChunk> chunks;
  bool logs_sums = false;          // a backup is told of whole clocks, and else of each push
  std::string backup;              // "tcp://host:port"; empty: none
  bool waits_unprotected = false;  // nodes are answered only while there is a backup
  uint64_t copy_vectors_max = 0;   // that a ChunkCopy has, each as long as the chunk
  // Bytes on their way to a backup that is being filled: one chunk more than that at most.
  uint64_t fill_ahead_bytes = 4 << 20;
  ChunkRules rules;
};

// Returns the number of the newest change of the job's nodes that holds at the clock, counted from
// the view on. Copies of a shard have the same nodes at a clock, or the backup does not follow.
uint32_t ChangesBefore(const ShardPlan& plan, uint64_t clock);

// Returns the bytes of weights and optimizer state in one cut. 0: there are no cuts.
uint64_t CutBytes(const ShardPlan& plan);

// Checks a record. Errors: InvalidArgument, naming the field and its value.
absl::StatusOr<ShardPlan> MakeShardPlan(const proto::JobRecord& record, ShardId own_shard);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_PLAN_H_
