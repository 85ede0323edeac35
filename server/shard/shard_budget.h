#ifndef STRATA_SERVER_SHARD_SHARD_BUDGET_H_
#define STRATA_SERVER_SHARD_SHARD_BUDGET_H_

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/os/memory_ledger.h"
#include "proto/record.pb.h"

namespace strata::server {

// What a job may take of one of its shards at most, with n nodes, window W, chunks of C bytes, and
// M bytes of the arena on this shard:
//
//   weights            M, and C more for the chunk that is being updated
//   clock before       where nodes that die are replaced, of sync and lazy(0): M, the weights of
//                      before the last clock; where answers are encoded M more of nodes' copies
//   optimizer state    0, 1 or 2 x M
//   nodes' copies      where answers are encoded: n x M, of sync and lazy(0) M; and what they share
//                      of it, the last payload of every chunk, no more than M
//   nodes' versions    with delay compensation: n x M, the weights that each node computes with;
//                      where it is adaptive, M of mean squares; C for the gradient in hand. With
//                      elastic averaging n x M, those that each node has met last, and C
//   work space         C to decode a push, 3 x C to choose TOP_K's elements of an answer
//   held sums          (n x W - 1) x C: pushes that wait for the other nodes' (n > 1, modes that
//                      apply per clock); no more than ceil(n / 2) x M. Not (n - 1) x W: each node
//                      may have pushed what no other one has, but for the lowest of all
//                      With order: RING n x M in place of ceil(n / 2) x M, here and below
//   late pushes        with a quorum of K nodes (n - K) x M: who was in a chunk's last clock is not
//                      late for the next; C for the sum of two. Nodes are in different steps, so
//                      held sums are n x W x C then
//   clocks ahead       s x ceil(n / 2) x M: lazy(s) answers pushes of s clocks that are not
//                      complete
//   trace              where the job is traced
//   messages           2 x n x W x C: pushes and answers on their way; no more than 2 x n x M
//
// Errors: InvalidArgument, as of ShardCore::Install.
absl::StatusOr<MemoryFormula> ShardMemoryNeed(const proto::JobRecord& record, ShardId own_shard);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_BUDGET_H_
