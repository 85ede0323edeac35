#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_MOVES_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_MOVES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "proto/control.pb.h"

namespace strata::server {

// What is to be done next for a shard with chunks of a running job, so that no copy of it is left
// on a server that is to be left.
enum class ShardStep {
  kNone,            // nothing is to leave, or something is under way
  kAddBackup,       // its only copy is to leave: fill another one
  kPromote,         // which has been filled, and goes on alone
  kReplaceBackup,   // fill the next backup, and drop the one of now after that
  kReplacePrimary,  // the same, and the backup of now is the primary then
  kDropBackup,      // it is not wanted, or can be of no use where it is
  kDropNext,        // the one that is to be the backup next is not wanted any more
};

// `leaves`: whether a server is to be left. `replicas`: second copies that the job is to have.
ShardStep NextStep(const proto::JobShardStatus& shard, uint32_t replicas,
                   const std::function<bool(const std::string&)>& leaves);

// Copies that are being filled, by server: of those that fill and of those that are filled.
using FillsOfServers = std::map<std::string, uint32_t>;
void CountFills(const proto::JobStatus& status, FillsOfServers* fills);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_SHARD_MOVES_H_
