#ifndef STRATA_SERVER_SHARD_BACKUP_LINE_H_
#define STRATA_SERVER_SHARD_BACKUP_LINE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/transport/link.h"
#include "common/wire/frame.h"
#include "server/shard/shard_action.h"

namespace strata::server {

// Returns whether a node that hears it learns nothing of the shard.
bool TellsNothing(const ShardAction& action);

// A primary's line to the backup of its shard: says each change of the shard once and in order,
// over connections that come and go, and keeps back what the shard has to say to nodes until the
// backup has all that went before it. So whatever a node has seen the backup has, too.
//
// A refusal of the backup is final: it has heard of a newer generation, in which this copy is no
// longer its primary. Nothing that is kept back leaves after that.
//
// A pure state machine: time comes with the events, actions go out.
class BackupLine {
 public:
  struct Options {
    ShardId shard;
    std::string address;    // of the backup
    LinkIdentity identity;  // hello: of the primary
    LinkTiming timing;
  };
  explicit BackupLine(Options options);

  // Says a change: a frame of an op that is logged. It is numbered, and signed by this line.
  void Log(wire::Frame frame, absl::Time now);
  // Actions of the shard, in order; errors and RETRY leave at once.
  void KeepBack(std::vector<ShardAction> made);

  void OnConnected(transport::ConnectionId connection, absl::Time now);
  // The connection is gone, or could not be made.
  void OnLost(const absl::Status& why, absl::Time now);
  void OnFrame(const wire::Frame& frame, absl::Time now);
  // Does what is due; at first, it connects.
  void OnTime(absl::Time now);
  // When OnTime has something to do next.
  absl::Time deadline() const;

  // Appends the actions since the last call.
  void TakeActions(std::vector<ShardAction>* actions);
  // Appends only what is no longer kept back, and nothing that is said to the backup.
  void TakeReleased(std::vector<ShardAction>* actions);
  // There is no backup any more. Appends all that was kept back, and the end of the line.
  void GiveUp(std::vector<ShardAction>* actions);

  bool Owns(transport::ConnectionId connection) const { return connection_.Owns(connection); }
  std::optional<transport::ConnectionId> connection() const { return connection_.open(); }
  bool is_up() const { return connection_.is_up(); }  // the backup has said that it hears
  // The change that was said last, and the last one that the backup has; from 1 on.
  uint64_t said() const { return said_; }
  uint64_t acknowledged() const { return said_ - unacknowledged_.size(); }
  // Since when a change waits to be acknowledged; infinity: none does.
  absl::Time waits_since() const;
  // Not OK: the backup's refusal.
  const absl::Status& refusal() const { return refusal_; }
  // Bytes of changes that wait to be acknowledged.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Said {
    wire::Frame frame;
    absl::Time at;
  };

  void Transmit(const Said& said);
  void SayAgain(absl::Time now);
  void Acknowledge(uint64_t received, absl::Time now);

  const Options options_;
  Reconnector connection_;
  bool is_started_ = false;
  uint64_t said_ = 0;
  std::deque<Said> unacknowledged_;
  uint64_t bytes_ = 0;
  // With the change that each waits for.
  std::deque<std::pair<uint64_t, ShardAction>> kept_back_;
  WireActions wire_;
  std::vector<ShardAction> out_;
  absl::Time say_again_at_ = absl::InfiniteFuture();
  absl::Duration resend_after_;
  absl::Status refusal_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_BACKUP_LINE_H_
