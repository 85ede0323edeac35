#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {

// Where the shards of a running job lie: the record's placement has addresses and generations, the
// status daemons. These change both. Whoever calls them saves the job before anybody is told: a
// generation that was told and forgotten would be given out twice.

// What is left of a job's shards without a server.
struct ServerLoss {
  std::vector<ShardId> moved;  // their other copy goes on alone, in a generation of its own
  std::vector<ShardId> lost;   // there was no other copy
};
ServerLoss TakeFrom(const std::string& daemon, proto::JobRecord* record, proto::JobStatus* status);

// The backup of a shard does not follow, says a daemon of this generation. Returns whether the
// shard has one copy from now on; not where the daemon is not its primary, or speaks of before.
bool DropBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                proto::JobRecord* record, proto::JobStatus* status);

// The shard is to have a second copy on this thread of the server, which is empty as yet, in a
// generation of its own. REQUIRES: it has none.
void AddBackup(ShardId shard, const ServerShards& server, uint32_t thread, proto::JobRecord* record,
               proto::JobStatus* status);
// The backup of a shard has been filled, says a daemon of this generation. Returns whether that is
// news; not where the daemon is not its primary, or speaks of before.
bool CompleteBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                    const proto::JobRecord& record, proto::JobStatus* status);
// Whether the daemon holds any copy of a shard of the job.
bool HoldsAny(const std::string& daemon, const proto::JobStatus& status);

// What daemons are told of the shard's place.
proto::MoveShard PlaceOf(const proto::JobRecord& record, const proto::JobStatus& status,
                         ShardId shard);
// Returns the shards whose place has changed since the job was placed.
std::vector<ShardId> MovedShards(const proto::JobRecord& record);
// Returns the shards with chunks of which there is one whole copy, in a job that is to have two.
std::vector<ShardId> Unprotected(const proto::JobRecord& record, const proto::JobStatus& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_
