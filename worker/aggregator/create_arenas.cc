#include "worker/aggregator/create_arenas.h"

#include <utility>

#include "common/cores.h"
#include "kernels/kernels.h"
#include "worker/aggregator/device/device_arenas.h"
#include "worker/aggregator/node_endpoint.h"

namespace strata::worker {

std::unique_ptr<NodeArenas> CreateNodeArenas(const ArenasOf& of, const ChunkMap& map,
                                             std::shared_ptr<BlockSource> source) {
  const NodeArenasOptions options{.source = std::move(source),
                                  .lends_gradients = MayLendGradients(of.job),
                                  .helpers = of.helpers,
                                  .cores = UsableCores()};
  return std::make_unique<NodeArenas>(of.memory, of.core, map, kernels::Cpu(), options);
}

absl::StatusOr<std::unique_ptr<Arenas>> CreateArenas(
    const ArenasOf& of, const ChunkMap& map, std::shared_ptr<BlockSource> source,
    const CoreOptions& exchange, const std::vector<std::shared_ptr<device::Device>>& devices,
    std::function<void()> wake) {
  if (devices.empty()) return CreateNodeArenas(of, map, std::move(source));
  auto arenas =
      DeviceArenas::Create(of.memory, of.core, map,
                           {.devices = devices,
                            .wake = std::move(wake),
                            .ranks_add_up = of.job.node_sum() == proto::NodeSum::NCCL,
                            .encodes_for = exchange.takes_payloads ? &exchange.record : nullptr,
                            .node = exchange.node,
                            .trace = exchange.trace,
                            .source = std::move(source),
                            .helpers = of.helpers});
  if (!arenas.ok()) return arenas.status();
  return *std::move(arenas);
}

}  // namespace strata::worker
