#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_BACKUP_PLACEMENT_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_BACKUP_PLACEMENT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {

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
// Whether second copies could lie anywhere. Errors: FailedPrecondition naming the servers, which
// are all on one host. REQUIRES: there is a server.
absl::Status CheckTwoHosts(const std::vector<ServerShards>& servers);
// The host of a server; those whose host is not known are on one where they have one address.
const std::string& HostOf(const ServerShards& server);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_BACKUP_PLACEMENT_H_
