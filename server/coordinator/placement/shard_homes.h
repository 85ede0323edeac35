#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {

// The places of a running job's shards: the record's placement has addresses and generations, the
// status daemons. These functions change both. The caller saves the job before anybody is told: a
// generation that was announced but not saved would be given out twice.

// A copy of a shard that is no longer wanted: its server must drop copies older than this
// generation.
struct DroppedCopy {
  ShardId shard;
  std::string server;
  uint32_t generation = 0;
};

// The shards of a job after the loss of a server.
struct ServerLoss {
  std::vector<ShardId> moved;        // shards whose other copy continues alone, in a new generation
  std::vector<ShardId> lost;         // shards without another copy
  std::vector<DroppedCopy> dropped;  // copies that were to be the next backup
};
ServerLoss TakeFrom(const std::string& daemon, proto::JobRecord* record, proto::JobStatus* status);

// A daemon reports that the backup of a shard does not follow in this generation. Returns the
// copies that are dropped, backup first: the shard has one copy from now on. Returns none if the
// daemon is not its primary or the report is outdated.
std::vector<DroppedCopy> DropBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                                    proto::JobRecord* record, proto::JobStatus* status);

// Gives the shard a backup on this thread of the server, empty at first, in a new generation.
// REQUIRES: it has none.
void AddBackup(ShardId shard, const ServerShards& server, uint32_t thread, proto::JobRecord* record,
               proto::JobStatus* status);
// A daemon reports that the backup of a shard has been filled in this generation. Returns whether
// that is news; false if the daemon is not its primary or the report is outdated.
bool CompleteBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                    const proto::JobRecord& record, proto::JobStatus* status);

// The shard's complete backup replaces its primary and continues alone. Returns the former primary.
// REQUIRES: there is such a backup.
DroppedCopy PromoteBackup(ShardId shard, proto::JobRecord* record, proto::JobStatus* status);

// Gives the shard a next backup on this thread of the server; until it has been filled, nothing
// else changes. `replaces_primary`: the current backup becomes the primary then. REQUIRES: its
// backup is complete, and there is no next one.
void AddNext(ShardId shard, const ServerShards& server, uint32_t thread, bool replaces_primary,
             proto::JobRecord* record, proto::JobStatus* status);
// Returns the server that fills the next backup.
const std::string& FillerOf(const proto::JobShardStatus& shard);
// The next backup has been filled and becomes the backup. Returns the copy that it replaces.
// REQUIRES: there is a next backup.
DroppedCopy TakeNext(ShardId shard, proto::JobRecord* record, proto::JobStatus* status);
// Drops the next backup. REQUIRES: there is one.
DroppedCopy DropNext(ShardId shard, proto::JobStatus* status);
// Returns the generation below which every copy of the shard has been dropped, unless its server
// has one now.
uint32_t DroppedBelow(ShardId shard, const proto::JobRecord& record,
                      const proto::JobStatus& status);

// Returns how many copies of shards with chunks the daemon holds, will hold or fills.
uint32_t CountCopies(const std::string& daemon, const proto::JobStatus& status);
// Returns whether the daemon holds any.
inline bool HoldsAny(const std::string& daemon, const proto::JobStatus& status) {
  return CountCopies(daemon, status) > 0;
}

// Returns the shard's place, in the form sent to daemons.
proto::MoveShard PlaceOf(const proto::JobRecord& record, const proto::JobStatus& status,
                         ShardId shard);
// Returns the shards that have moved since the job was placed.
std::vector<ShardId> MovedShards(const proto::JobRecord& record);
// Returns the shards with chunks that have only one complete copy, in a job that wants two.
std::vector<ShardId> Unprotected(const proto::JobRecord& record, const proto::JobStatus& status);

// The next step for a shard with chunks of a running job, so that no copy of it stays on a draining
// server.
enum class ShardStep {
  kNone,            // nothing must leave, or a step is under way
  kAddBackup,       // its only copy must leave: fill another one
  kPromote,         // the filled backup continues alone
  kReplaceBackup,   // fill the next backup, then drop the current one
  kReplacePrimary,  // the same, but the current backup becomes the primary
  kDropBackup,      // the backup is unwanted, or useless where it is
  kDropNext,        // the next backup is no longer wanted
};

// `leaves`: whether a server is being drained. `replicas`: backups that the job asks for.
ShardStep NextStep(const proto::JobShardStatus& shard, uint32_t replicas,
                   const std::function<bool(const std::string&)>& leaves);

// Number of fills under way by server, as source or destination.
using FillsOfServers = std::map<std::string, uint32_t>;
void CountFills(const proto::JobStatus& status, FillsOfServers* fills);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_
