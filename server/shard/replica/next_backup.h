#ifndef STRATA_SERVER_SHARD_REPLICA_NEXT_BACKUP_H_
#define STRATA_SERVER_SHARD_REPLICA_NEXT_BACKUP_H_

#include <memory>
#include <optional>
#include <string>

#include "server/shard/replica/backup_line.h"
#include "server/shard/replica/copy_frames.h"

namespace strata::server {

// A copy of a shard that is filled besides, by its primary or by its backup, until it is the
// shard's backup itself.
struct NextBackup {
  std::string address;
  std::unique_ptr<BackupLine> line;
  std::optional<BackupFill> fill;  // what it lacks; none: nothing
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_REPLICA_NEXT_BACKUP_H_
