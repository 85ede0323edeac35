#ifndef STRATA_SERVER_SHARD_PRIMARY_ROLE_H_
#define STRATA_SERVER_SHARD_PRIMARY_ROLE_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/wire/frame.h"
#include "server/shard/following_copy.h"
#include "server/shard/frame_gate.h"
#include "server/shard/shard_action.h"
#include "server/shard/shard_chunks.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// The primary's part of a shard: it sends each change to its backup, if it has one, and withholds
// answers until the backup has every change before them.
//
// Threads: one.
class PrimaryRole {
 public:
  // The arguments outlive this object. `stands_still`: no node is answered until there is a backup.
  PrimaryRole(const ShardPlan& plan, const FrameGate& gate, ShardChunks* chunks, NextBackup* next,
              bool stands_still);

  bool stands_still() const { return stands_still_; }
  // The backup is complete, so nodes may be answered.
  void Resume() { stands_still_ = false; }
  // Null: there is no backup.
  FollowingCopy* backup() { return backup_ ? &*backup_ : nullptr; }
  const FollowingCopy* backup() const { return backup_ ? &*backup_ : nullptr; }

  // Makes `backup` the backup. REQUIRES: there is none.
  void BeginBackup(FollowingCopy backup);
  // Makes the next backup the backup; it takes over what is withheld for the current one.
  void TakeNext(FollowingCopy next, bool is_whole, std::vector<ShardAction>* actions);
  // There is neither a backup nor a next one any more: what was withheld for them goes out, unless
  // the job waits while it is unprotected.
  void EndBackups(std::vector<ShardAction>* actions);

  // Sends a change of a chunk, or of all chunks (no `chunk`), to the backup and to the next one.
  void Log(const wire::Frame& change, std::optional<size_t> chunk, absl::Time now);
  // The same for clocks that the chunk has applied since the last call.
  void LogSums(size_t chunk, absl::Time now);
  void LogGraceIsOver(size_t chunk, absl::Time now);
  // Sends messages to nodes once the backup has everything before them.
  void Emit(std::vector<ShardAction> made, std::vector<ShardAction>* actions);
  // Appends messages to the backup and the next one, and what is no longer withheld.
  void PassOn(std::vector<ShardAction>* actions);

 private:
  const ShardPlan& plan_;
  const FrameGate& gate_;
  ShardChunks& chunks_;
  NextBackup& next_;
  std::optional<FollowingCopy> backup_;
  bool stands_still_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_PRIMARY_ROLE_H_
