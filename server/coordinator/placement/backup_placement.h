#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_BACKUP_PLACEMENT_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_BACKUP_PLACEMENT_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
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
// copies alone. The same input gives the same answer. Errors: FailedPrecondition: a shard's host is
// the only one, which it names.
absl::StatusOr<std::vector<std::optional<BackupPlace>>> PlaceBackups(
    const JobPlacement& placement, const std::vector<ServerShards>& servers);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_BACKUP_PLACEMENT_H_
