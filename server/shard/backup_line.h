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

// Returns whether the action reveals nothing of the shard's state to a node.
bool TellsNothing(const ShardAction& action);

// A primary's line to the backup of its shard. It sends each change of the shard once and in order,
// over connections that come and go, and withholds the shard's messages to nodes until the backup
// has all changes before them. So the backup has everything that any node has seen.
//
// A refusal by the backup is final: it knows a newer generation, in which this copy is no longer
// its primary. Nothing that was withheld is sent after that.
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

  // Sends a change: a frame of an op that is logged. This line numbers and signs it.
  void Log(wire::Frame frame, absl::Time now);
  // Withholds actions of the shard, in order; errors and RETRY leave at once.
  void KeepBack(std::vector<ShardAction> made);

  void OnConnected(transport::ConnectionId connection, absl::Time now);
  // The connection was lost, or could not be made.
  void OnLost(const absl::Status& why, absl::Time now);
  void OnFrame(const wire::Frame& frame, absl::Time now);
  // Does what is due; the first call connects.
  void OnTime(absl::Time now);
  // When OnTime has something to do next.
  absl::Time deadline() const;

  // Appends the actions since the last call.
  void TakeActions(std::vector<ShardAction>* actions);
  // Appends only what is no longer withheld, and nothing to the backup.
  void TakeReleased(std::vector<ShardAction>* actions);
  // There is no backup any more. Appends everything withheld, and closes the line.
  void GiveUp(std::vector<ShardAction>* actions);

  bool Owns(transport::ConnectionId connection) const { return connection_.Owns(connection); }
  std::optional<transport::ConnectionId> connection() const { return connection_.open(); }
  bool is_up() const { return connection_.is_up(); }  // the backup has confirmed the connection
  // The numbers of the last change sent and of the last one that the backup has; they begin at 1.
  uint64_t said() const { return said_; }
  uint64_t acknowledged() const { return said_ - unacknowledged_.size(); }
  // Since when the oldest unacknowledged change has waited; InfiniteFuture: there is none.
  absl::Time waits_since() const;
  // Not OK: the backup's refusal.
  const absl::Status& refusal() const { return refusal_; }
  // Bytes of unacknowledged changes.
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
  // Each with the number of the change that it waits for.
  std::deque<std::pair<uint64_t, ShardAction>> kept_back_;
  WireActions wire_;
  std::vector<ShardAction> out_;
  absl::Time say_again_at_ = absl::InfiniteFuture();
  absl::Duration resend_after_;
  absl::Status refusal_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_BACKUP_LINE_H_
