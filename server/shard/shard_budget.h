#ifndef STRATA_SERVER_SHARD_SHARD_BUDGET_H_
#define STRATA_SERVER_SHARD_SHARD_BUDGET_H_

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/os/memory_ledger.h"
#include "proto/record.pb.h"

namespace strata::server {

// The maximum memory of a job on one of its shards, with n nodes, window W, chunks of C bytes and M
// bytes of the arena on this shard:
//
//   weights            M, plus C for the chunk that is being updated
//   clock before       sync and lazy(0), if nodes that die are replaced: M, the weights before the
//                      last clock; M more for the nodes' copies if answers are encoded
//   optimizer state    0, 1 or 2 x M
//   nodes' copies      if answers are encoded: n x M, but M for sync and lazy(0), plus at most M
//                      for the last payload of every chunk, which these share
//   nodes' versions    delay compensation: n x M, the weights that each node computes with; if it
//                      is adaptive, M of mean squares; C for the current gradient. Elastic
//                      averaging: n x M, the weights that each node met last, plus C
//   work space         C to decode a push, 3 x C to choose TOP_K's elements of an answer
//   held sums          (n x W - 1) x C: pushes that wait for the other nodes' (n > 1, modes that
//                      apply per clock); at most ceil(n / 2) x M. Not (n - 1) x W: each node may
//                      have pushed chunks that no other node has, except the lowest of all.
//                      With order: RING n x M instead of ceil(n / 2) x M, here and below
//   late pushes        quorum of K nodes: (n - K) x M, because a node in a chunk's last clock is
//                      not late for the next; C for the sum of two. Nodes are in different steps,
//                      so held sums are n x W x C then
//   clocks ahead       s x ceil(n / 2) x M: lazy(s) answers pushes of s incomplete clocks
//   tables             of each table, its rows in the shard's buckets at its capacity, as
//                      rows::MemoryBytesMax
//   rows of steps      with tables, rows.bytes_per_step being B: (3 + 2 x s) x n x B, pushes that
//                      wait for other nodes' with their ids decoded, and a clock's sums; in async
//                      and lazy on arrival 2 x n x B
//   rows looked up     4 MiB for each rank
//   trace              if the job is traced
//   messages           2 x n x W x C: pushes and answers in flight; at most 2 x n x M
//
// Errors: InvalidArgument, as of ShardCore::Install.
absl::StatusOr<MemoryFormula> ShardMemoryNeed(const proto::JobRecord& record, ShardId own_shard);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_BUDGET_H_
