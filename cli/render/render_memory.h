#ifndef STRATA_CLI_RENDER_RENDER_MEMORY_H_
#define STRATA_CLI_RENDER_RENDER_MEMORY_H_

#include <string>

#include "proto/control.pb.h"

namespace strata::cli {

// Fills in the parts of the memory formulas (server/shard/shard_budget.h,
// worker/aggregator/core/node_budget.h, gpu_budget.h) of each of the job's nodes and shards, as its
// daemons promise them; for GPUs once a node has reported its promises. Does nothing while the job
// has no chunks, for jobs without an exchange, and for jobs with so many chunks and shards that it
// would take long.
void AddMemoryParts(const proto::JobRecord& record, proto::JobStatus* status);

// The memory formula of a job, part by part, in bytes and in multiples of the model's size: of the
// node, of its GPUs and of the shard with the largest need, and the sums over all. Empty if no
// parts are known.
std::string MemoryTable(const proto::JobStatus& job);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_MEMORY_H_
