#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/control.pb.h"
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

// Where a shard of a job lies a second time.
struct BackupPlace {
  size_t server = 0;
  size_t thread = 0;  // which of the server's shards holds it besides its own

  bool operator==(const BackupPlace&) const = default;
};

// Chooses a second place for each of a job's shards: on another host than the first, and so that
// the threads of all servers hold about as many chunks, first and second copies together. None for
// shards without a chunk. `placement` was made of the first of `servers`; the others hold second
// copies alone. The same input gives the same answer. Errors: FailedPrecondition: all servers are
// on one host; it names them.
absl::StatusOr<std::vector<std::optional<BackupPlace>>> PlaceBackups(
    const JobPlacement& placement, const std::vector<ServerShards>& servers);

// Chooses a place for the second copy of one shard of a running job, which has lost its own: on
// another host than `host`, where its first copy lies, and where the job has fewest chunks as yet.
// None: no server of these is on another host.
std::optional<BackupPlace> PlaceOneBackup(const proto::JobStatus& status, ShardId shard,
                                          const std::string& host,
                                          const std::vector<ServerShards>& servers);
// Checks that second copies can lie somewhere. Errors: FailedPrecondition naming the servers, which
// are all on one host. REQUIRES: there is a server.
absl::Status CheckTwoHosts(const std::vector<ServerShards>& servers);
// The host of a server; those whose host is not known are on one where they have one address.
const std::string& HostOf(const ServerShards& server);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_
