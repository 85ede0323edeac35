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

// Where the shards of a running job lie: the record's placement has addresses and generations, the
// status daemons. These change both. Whoever calls them saves the job before anybody is told: a
// generation that was told and forgotten would be given out twice.

// A copy of a shard that is not wanted any more: its server is to forget what is older than this
// generation.
struct DroppedCopy {
  ShardId shard;
  std::string server;
  uint32_t generation = 0;
};

// The shards of a job after the loss of a server.
struct ServerLoss {
  std::vector<ShardId> moved;        // their other copy continues alone, in a generation of its own
  std::vector<ShardId> lost;         // there was no other copy
  std::vector<DroppedCopy> dropped;  // those that were to be backups next
};
ServerLoss TakeFrom(const std::string& daemon, proto::JobRecord* record, proto::JobStatus* status);

// The backup of a shard does not follow, says a daemon of this generation. Returns the copies that
// are dropped, its backup first: the shard has one copy from now on. None where the daemon is not
// its primary, or speaks of before.
std::vector<DroppedCopy> DropBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                                    proto::JobRecord* record, proto::JobStatus* status);

// The shard is to have a second copy on this thread of the server, which is empty as yet, in a
// generation of its own. REQUIRES: it has none.
void AddBackup(ShardId shard, const ServerShards& server, uint32_t thread, proto::JobRecord* record,
               proto::JobStatus* status);
// The backup of a shard has been filled, says a daemon of this generation. Returns whether that is
// news; not where the daemon is not its primary, or speaks of before.
bool CompleteBackup(const std::string& daemon, ShardId shard, uint32_t generation,
                    const proto::JobRecord& record, proto::JobStatus* status);

// The shard's backup, which is whole, takes its primary's place and continues alone. Returns the
// primary of before. REQUIRES: there is such a backup.
DroppedCopy PromoteBackup(ShardId shard, proto::JobRecord* record, proto::JobStatus* status);

// The shard is to have another backup, on this thread of the server, in the end: until it has been
// filled, all stays as it is. `replaces_primary`: the backup of now is the primary then. REQUIRES:
// its backup is whole, and no other one is under way.
void AddNext(ShardId shard, const ServerShards& server, uint32_t thread, bool replaces_primary,
             proto::JobRecord* record, proto::JobStatus* status);
// The server that fills it.
const std::string& FillerOf(const proto::JobShardStatus& shard);
// It has been filled, and is the backup from now on. Returns the copy whose place it has taken.
// REQUIRES: one is under way.
DroppedCopy TakeNext(ShardId shard, proto::JobRecord* record, proto::JobStatus* status);
// It is not wanted any more. REQUIRES: one is under way.
DroppedCopy DropNext(ShardId shard, proto::JobStatus* status);

// Returns how many copies of shards with chunks the daemon holds, is to hold or fills.
uint32_t CountCopies(const std::string& daemon, const proto::JobStatus& status);
// Returns whether the daemon holds any.
inline bool HoldsAny(const std::string& daemon, const proto::JobStatus& status) {
  return CountCopies(daemon, status) > 0;
}

// The shard's place, as daemons are told.
proto::MoveShard PlaceOf(const proto::JobRecord& record, const proto::JobStatus& status,
                         ShardId shard);
// Returns the shards whose place has changed since the job was placed.
std::vector<ShardId> MovedShards(const proto::JobRecord& record);
// Returns the shards with chunks of which there is one whole copy, in a job that is to have two.
std::vector<ShardId> Unprotected(const proto::JobRecord& record, const proto::JobStatus& status);

// The next step for a shard with chunks of a running job, so that no copy of it stays on a server
// that is being drained.
enum class ShardStep {
  kNone,            // nothing is to leave, or something is under way
  kAddBackup,       // its only copy is to leave: fill another one
  kPromote,         // which has been filled, and continues alone
  kReplaceBackup,   // fill the next backup, and drop the one of now after that
  kReplacePrimary,  // the same, and the backup of now is the primary then
  kDropBackup,      // it is not wanted, or can be of no use where it is
  kDropNext,        // the next backup is not wanted any more
};

// `leaves`: whether a server is being drained. `replicas`: second copies that the job asks for.
ShardStep NextStep(const proto::JobShardStatus& shard, uint32_t replicas,
                   const std::function<bool(const std::string&)>& leaves);

// Copies that are being filled, by server: of those that fill and of those that are filled.
using FillsOfServers = std::map<std::string, uint32_t>;
void CountFills(const proto::JobStatus& status, FillsOfServers* fills);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_HOMES_H_
