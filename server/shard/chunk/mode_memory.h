#ifndef STRATA_SERVER_SHARD_CHUNK_MODE_MEMORY_H_
#define STRATA_SERVER_SHARD_CHUNK_MODE_MEMORY_H_

#include <cstdint>

#include "common/limits/memory_ledger.h"

// Parts of a job's memory formula (shard_budget.h) that several modes have.
namespace strata::server {

// The sizes of a shard's part of a job.
struct ShardSize {
  uint64_t nodes = 0;
  uint64_t window = 1;
  uint64_t own_bytes = 0;    // of the job's weights
  uint64_t chunk_bytes = 0;  // of its largest chunk
};

// Adds the memory for the weights that each node was given last.
void AddGivenWeights(const ShardSize& size, MemoryFormula* need);

// Adds the memory for pushes that wait for those of other nodes, where a sum of all holds at most
// `leaves` of them at a time: (nodes x window - saved) chunks, but no more than `leaves` vectors.
void AddWaitingPushes(const ShardSize& size, uint64_t leaves, uint64_t saved, MemoryFormula* need);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_MODE_MEMORY_H_
