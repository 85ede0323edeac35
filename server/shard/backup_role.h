#ifndef STRATA_SERVER_SHARD_BACKUP_ROLE_H_
#define STRATA_SERVER_SHARD_BACKUP_ROLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "server/shard/answer_sender.h"
#include "server/shard/copy_frames.h"
#include "server/shard/following_copy.h"
#include "server/shard/frame_gate.h"
#include "server/shard/shard_action.h"
#include "server/shard/shard_chunks.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// The backup's part of a shard: it applies each change that the primary sends, in order, and
// confirms it once the next backup, if there is one, has it too. No node talks to a backup.
//
// Threads: one.
class BackupRole {
 public:
  // The arguments outlive this object. `is_empty`: the primary has yet to send each chunk.
  BackupRole(const ShardPlan& plan, const FrameGate& gate, AnswerSender* sender,
             ShardChunks* chunks, NextBackup* next, bool is_empty);

  // The primary's HELLO has been accepted: answers it and closes the primary's previous connection.
  void OnHello(transport::ConnectionId connection, const wire::Frame& frame,
               std::vector<ShardAction>* actions);
  // REQUIRES: it comes from primary().
  void OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
               std::vector<ShardAction>* actions);
  void OnDisconnected(transport::ConnectionId connection);
  // Messages of the former primary are ignored from now on.
  void ClosePrimary(std::vector<ShardAction>* actions);
  // Appends messages to the next backup, and what is no longer withheld for it.
  void PassOn(std::vector<ShardAction>* actions);

  // The primary's connection.
  std::optional<transport::ConnectionId> primary() const { return primary_; }
  // Returns how many chunks the primary has yet to send.
  size_t chunks_missing() const;
  // Bytes of a partially received chunk.
  uint64_t bytes() const { return collector_.bytes(); }

 private:
  // Applies the primary's change. Errors: it cannot be applied here.
  absl::Status Follow(const wire::Frame& frame, absl::Time now);
  absl::Status FollowInit(const wire::Frame& frame, size_t chunk, absl::Time now);
  absl::Status FollowPush(const wire::Frame& frame, size_t node, size_t chunk, absl::Time now);
  // A clock that was applied, or the end of a quorum's grace.
  absl::Status FollowApply(const wire::Frame& frame, size_t chunk, absl::Time now);
  absl::Status FollowCopy(const wire::Frame& frame, size_t chunk);
  absl::Status FollowRetire(const wire::Frame& frame, size_t node, absl::Time now);
  // Makes due answers and drops them, because making them changes the nodes' copies; only the
  // primary cuts images.
  void DropDue(size_t chunk, const std::vector<DueAnswer>& due);
  // Sends a change to the next backup.
  void Log(const wire::Frame& change, std::optional<size_t> chunk, absl::Time now);
  void Confirm(transport::ConnectionId connection, wire::Frame reply,
               std::vector<ShardAction>* actions);

  const ShardPlan& plan_;
  const FrameGate& gate_;
  AnswerSender& sender_;
  ShardChunks& chunks_;
  NextBackup& next_;
  std::vector<bool> lacks_;  // by chunk: the primary has yet to send it
  CopyCollector collector_;
  std::optional<transport::ConnectionId> primary_;
  uint64_t followed_ = 0;  // the number of the last change applied here
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_BACKUP_ROLE_H_
