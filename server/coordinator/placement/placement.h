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

// A server's shards, as input to a placement.
struct ServerShards {
  std::string daemon;
  std::string address;
  std::vector<uint32_t> ports;  // one per shard
  std::string host;             // equal for daemons on one machine; empty: unknown
  double link_bytes_per_s = 0;  // 0: unknown
  double share = 0;             // fraction of the model; if all of a job's are 0, all shards get
                                // equal amounts
};

// Returns "tcp://HOST:PORT" of the server's shard.
std::string ShardEndpoint(const ServerShards& server, size_t shard);

// The servers and shards that hold a job's chunks.
struct JobPlacement {
  proto::Placement placement;
  // By server, in the order given: the job's shard index of each of its shards.
  std::vector<std::vector<uint32_t>> shards_of_server;
};

// Spreads the chunks over all shards of all servers, each server's share evenly over its own
// shards, by largest remainder. Any run of chunks is spread in the same proportions, as nearly as
// whole chunks allow, so a node that pushes chunks in order keeps all shards busy. With equal
// shares chunk c lives on shard c mod shards. `chunk_elements` 0 stands for the default for this
// many elements and shards. Without servers there are no shards (exchange NONE). Errors:
// InvalidArgument when there would be too many chunks or shards.
absl::StatusOr<JobPlacement> PlaceChunks(uint64_t elements, uint32_t chunk_elements,
                                         const std::vector<ServerShards>& servers);

// Spreads buckets of rows over the shards in the proportions in which PlaceChunks spreads chunks.
// `wanted`: their number; 0: the default, see proto/job.proto. REQUIRES: `placement` is of these
// servers, of which there is one.
void PlaceBuckets(uint32_t wanted, const std::vector<ServerShards>& servers,
                  proto::Placement* placement);

// Returns the chunk size for a job whose gradients are on devices: the default, but at least 2 MiB
// if each shard still has eight chunks then. A chunk of any size costs the aggregator a dozen
// driver calls, some 50 us on an H200's host.
uint32_t DeviceChunkElements(uint64_t elements, uint32_t shards);

// The place of a shard's backup.
struct BackupPlace {
  size_t server = 0;
  size_t thread = 0;  // the server's shard that holds it besides its own

  bool operator==(const BackupPlace&) const = default;
};

// Chooses a place for the backup of each of a job's shards: on another host than the primary, such
// that the threads of all servers hold about the same number of chunks, counting both copies. None
// for shards without a chunk. `placement` covers the first of `servers`; the others hold only
// backups. Deterministic. Errors: FailedPrecondition: all servers are on one host; it names them.
absl::StatusOr<std::vector<std::optional<BackupPlace>>> PlaceBackups(
    const JobPlacement& placement, const std::vector<ServerShards>& servers);

// Chooses a place for a new backup of one shard of a running job: on another host than `host`,
// which has its primary, and where the job has fewest chunks so far. None: none of these servers is
// on another host.
std::optional<BackupPlace> PlaceOneBackup(const proto::JobStatus& status, ShardId shard,
                                          const std::string& host,
                                          const std::vector<ServerShards>& servers);
// Checks that backups can be placed. Errors: FailedPrecondition naming the servers, which are all
// on one host. REQUIRES: there is a server.
absl::Status CheckTwoHosts(const std::vector<ServerShards>& servers);
// Returns the host of a server; servers of unknown host and equal address count as one host.
const std::string& HostOf(const ServerShards& server);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_H_
