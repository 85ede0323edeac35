#ifndef STRATA_SERVER_SHARD_SHARD_PLAN_H_
#define STRATA_SERVER_SHARD_SHARD_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "common/job/views.h"
#include "common/os/limits.h"
#include "proto/record.pb.h"
#include "rows/table_spec.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {

// A chunk that one shard holds.
struct OwnChunk {
  ChunkId id;
  uint32_t elements = 0;
  uint64_t begin = 0;       // its first element in the arena
  uint32_t connection = 0;  // which of a node's connections carries the chunk's answers
  std::vector<OptimizerRun> runs;
};

// The rows of a job with tables, on one shard.
struct RowsPlan {
  std::vector<rows::TableSpec> tables;  // empty: the job has none
  std::vector<uint32_t> columns;        // of each
  uint32_t bucket_bits = 0;             // the job has 2^bucket_bits buckets
  std::vector<uint32_t> buckets;        // those on this shard, ascending
  uint32_t connection = 0;              // which of a node's connections carries rows
  // How pushes are applied and answered, see StalenessGate; at once if there is no gate.
  std::optional<StalenessGate> gate;
  bool is_per_clock = false;    // all nodes' pushes of a clock together, and not each as it comes
  uint64_t bytes_per_step = 0;  // that a node may push, RowBytes of all
  uint64_t cut_every = 0;       // clocks between checkpoints; 0: there are none
  uint64_t kept_bytes = 0;      // the most that rows as they were take, until they are in one
  uint64_t piece_bytes = kRowPieceBytes;  // an object of rows in a checkpoint is full with so many
  bool damps = false;                     // divides the rate by the staleness
  NodeRanks ranks;              // gate and not is_per_clock: the rate is multiplied by the push's
  uint32_t batch_per_rank = 0;  // share of its clock
};

// A checked job record, from the point of view of one of its shards.
struct ShardPlan {
  JobId job;
  ShardId shard;  // of the job
  uint64_t token = 0;
  uint64_t cluster = 0;
  uint32_t view = 0;
  uint32_t generation = 0;
  uint32_t heard_from = 0;    // the generation since which this copy has served nodes
  std::vector<NodeId> nodes;  // in order of their first rank; parallel to `ranks`
  NodeRanks ranks;
  std::shared_ptr<Views> views;  // participation over time, as far as decided; also in `ranks`
  uint32_t connections = 1;      // per node, that carry chunks
  bool resumes = false;          // from a checkpoint, so no node offers first weights
  bool lets_begin_late = false;  // nodes may start later: as replacements, or as they join
  std::vector<OwnChunk> chunks;
  RowsPlan rows;
  bool logs_sums = false;          // a backup gets whole clocks, and otherwise each push
  std::string backup;              // "tcp://host:port"; empty: none
  bool waits_unprotected = false;  // nodes are answered only while there is a backup
  uint64_t copy_vectors_max = 0;   // in a ChunkCopy, each as long as the chunk
  // Bytes in flight to a backup that is being filled: at most one chunk more than that.
  uint64_t fill_ahead_bytes = 4 << 20;
  ChunkRules rules;

  // A node's connections: one more where the job has tables.
  uint32_t slots() const { return connections + (rows.tables.empty() ? 0 : 1); }
};

// Returns the number of the newest change of the job's nodes in effect at the clock. Both copies of
// a shard must have the same nodes at a clock, or the backup does not follow.
uint32_t ChangesBefore(const ShardPlan& plan, uint64_t clock);

// Returns the bytes of weights and optimizer state in one cut. 0: there are no cuts.
uint64_t CutBytes(const ShardPlan& plan);

// Checks a record. Errors: InvalidArgument, naming the field and its value.
absl::StatusOr<ShardPlan> MakeShardPlan(const proto::JobRecord& record, ShardId own_shard);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_PLAN_H_
