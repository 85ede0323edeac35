#include "server/coordinator/placement.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/limits/limits.h"

namespace strata::server {
namespace {

std::string Endpoint(const std::string& address, uint32_t port) {
  const bool ipv6 = address.find(':') != std::string::npos && address.front() != '[';
  return absl::StrCat("tcp://", ipv6 ? absl::StrCat("[", address, "]") : address, ":", port);
}

}  // namespace

absl::StatusOr<JobPlacement> PlaceChunks(uint64_t elements, uint32_t chunk_elements,
                                         const std::vector<ServerShards>& servers) {
  JobPlacement result;
  proto::Placement& placement = result.placement;
  placement.set_generation(1);
  for (const ServerShards& server : servers) {
    result.shards_of_server.emplace_back();
    for (uint32_t port : server.ports) {
      result.shards_of_server.back().push_back(placement.shard_endpoints_size());
      placement.add_shard_endpoints(Endpoint(server.address, port));
    }
  }
  const uint32_t shards = placement.shard_endpoints_size();
  placement.set_chunk_elements(chunk_elements != 0 ? chunk_elements
                                                   : DefaultChunkElements(elements, shards));
  const uint64_t chunks = (elements + placement.chunk_elements() - 1) / placement.chunk_elements();
  if (chunks > kChunksMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "chunk_elements: %d cuts %d elements into %d chunks; at most %d are possible",
        placement.chunk_elements(), elements, chunks, kChunksMax));
  }
  if (shards > kShardsPerJobMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the servers have %d shards; a job can use at most %d", shards, kShardsPerJobMax));
  }
  if (shards == 0) return result;
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    placement.add_shard_of_chunk(chunk % shards);
  }
  return result;
}

}  // namespace strata::server
