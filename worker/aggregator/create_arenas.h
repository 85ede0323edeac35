#ifndef STRATA_WORKER_AGGREGATOR_CREATE_ARENAS_H_
#define STRATA_WORKER_AGGREGATOR_CREATE_ARENAS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fork_join.h"
#include "common/job/arena.h"
#include "kernels/device/device.h"
#include "proto/job.pb.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/aggregator/host/node_arenas.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// What arenas are made of and for; all of it outlives them.
struct ArenasOf {
  const proto::Job& job;
  NodeMemory* memory = nullptr;
  AggregatorCore* core = nullptr;
  ForkJoin* helpers = nullptr;
};

// Creates arenas in the node's shared memory. `source`: see NodeArenasOptions.
std::unique_ptr<NodeArenas> CreateNodeArenas(const ArenasOf& of, const ChunkMap& map,
                                             std::shared_ptr<BlockSource> source);

// Creates arenas in the memory of the devices that there are by local rank or, where there are
// none, as above. `exchange`: what the job's exchange is created with, which the arenas then fit.
// `wake`: see DeviceArenasOptions. Errors: DeviceArenas::Create's.
absl::StatusOr<std::unique_ptr<Arenas>> CreateArenas(
    const ArenasOf& of, const ChunkMap& map, std::shared_ptr<BlockSource> source,
    const CoreOptions& exchange, const std::vector<std::shared_ptr<device::Device>>& devices,
    std::function<void()> wake);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CREATE_ARENAS_H_
