#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/record.pb.h"

namespace strata::server {

// A server's shards as a placement sees them.
struct ServerShards {
  std::string daemon;
  std::string address;
  std::vector<uint32_t> ports;  // one per shard
  std::string host;             // the same for daemons of one machine; empty: unknown
  double link_bytes_per_s = 0;  // 0: unknown
  double share = 0;             // of the model; a job's are all 0 where shards are to hold the same
};

// "tcp://HOST:PORT" of the server's shard.
std::string ShardEndpoint(const ServerShards& server, size_t shard);

// The servers and shards that hold a job's chunks.
struct JobPlacement {
  proto::Placement placement;
  // By server, in the order given: the job's shard index of each of its shards.
  std::vector<std::vector<uint32_t>> shards_of_server;
};

// Spreads the chunks over all shards of all servers, each server's share evenly over its own: by
// largest remainder, and so that of any run of chunks each shard has its share, as nearly as whole
// chunks allow: a node that pushes them in order keeps all shards busy. With equal shares chunk c
// lives on shard c mod shards. `chunk_elements` 0 stands for the default of this many elements and
// shards. No servers: no shards (exchange NONE). Errors: InvalidArgument when there would be too
// many chunks or shards.
absl::StatusOr<JobPlacement> PlaceChunks(uint64_t elements, uint32_t chunk_elements,
                                         const std::vector<ServerShards>& servers);

// The chunk size of a job whose gradients lie on devices: that default, but 2 MiB at least where
// each shard then has eight chunks. A chunk costs the aggregator a dozen calls of the device's
// driver, some 50 us on an H200's host, however short it is.
uint32_t DeviceChunkElements(uint64_t elements, uint32_t shards);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_
