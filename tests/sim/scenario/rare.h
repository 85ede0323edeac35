#ifndef STRATA_TESTS_SIM_SCENARIO_RARE_H_
#define STRATA_TESTS_SIM_SCENARIO_RARE_H_

#include <cstddef>
#include <cstdint>

namespace strata::sim {

// Rare branches that the world takes on purpose. Each stands for something that a real network,
// process or peer may do at any time.
enum class Rare : uint8_t {
  kQueueFull,        // an endpoint does not take a frame
  kEarlyResend,      // a repeated push comes before an answer to the first can be back
  kHelloTwice,       // a shard gets a HELLO again, out of the blue
  kRetry,            // a shard says RETRY
  kReconnect,        // a connection breaks while all is well
  kSlowRank,         // a rank computes for seconds
  kStoppedNode,      // a node's process stands still, then goes on
  kStoppedShard,     // a shard stands still, then goes on
  kStaleView,        // a push of the view before
  kFutureView,       // a push of a view that is not installed yet
  kOtherGeneration,  // a push for the placement before
  kClockJump,        // a push ahead of what the node has pushed
  kOtherJob,         // a push that names another job
  kOtherNode,        // a push in the name of another node
  kOtherContent,     // a repetition with another checksum from the same process
  kInitConflict,     // other first weights than before
  kInstallTwice,     // InstallJob is repeated
  kPublishOrder,     // a rank publishes in an order of its own
  kNodeRestart,      // a node starts over with the next incarnation
  // From here on those of the control plane.
  kSessionBreak,        // a daemon's line to the coordinator breaks
  kSlowStart,           // a node's ranks take seconds to start
  kStalledLine,         // what a daemon says after Register takes seconds
  kOldRegister,         // a Register is said again by somebody else, at once or later
  kNoAnswer,            // a worker does not say which shards it reaches
  kUnreachable,         // a worker reaches a server's shards only after a while
  kCancel,              // a user cancels a job
  kCoordinatorRestart,  // the coordinator's process dies, another one begins
  kStoppedCoordinator,  // it stands still, then goes on
  kLostWorker,          // a worker's processes die; the daemon comes back with nothing
  kLostServer,          // a server's process, likewise
  kSilentDaemon,        // the coordinator hears a daemon's words only after it has given it up
  // Of sealed jobs.
  kRepeatedConnection,  // all that a node has said over a connection is said again from elsewhere
  // Of jobs whose shards have second copies.
  kGoneForGood,    // a server's process dies, and no other one begins
  kStoppedServer,  // a server's process is stopped, then goes on
  kCutOffServer,   // a server and the coordinator do not reach each other for a while
  kServersApart,   // two servers do not reach each other for a while
  kBothLost,       // two servers die at once
  kRestartAtSave,  // the coordinator dies when it has saved where a shard lies, and told nobody
  kTakenOver,      // a second copy takes over
  kGoneAlone,      // a first copy goes on without the second
  // The same, when a shard has lost one of them.
  kNewCopy,            // a server takes a new one in, which is empty
  kNewCopyWhole,       // it has been filled, and counts
  kLateCopyTakesOver,  // it takes over
  kNoRoomForCopy,      // a server refuses to take one in
  kDisturbedFill,      // something happens to one of both while the new one is filled
  kDisturbedNewCopy,   // or soon after it counts
  kLateRemoval,        // a server forgets a copy that was dropped only after a while
  kLateReport,         // what a server says of its copies arrives after a while
  // Of jobs whose nodes come and go.
  kLateWorker,       // a worker joins the cluster while jobs run
  kDrain,            // a user takes a worker out of service
  kUndrain,          // and back into it
  kLeaving,          // a worker says that it is about to end, and does; another process begins
  kNodeDies,         // the processes of a node end
  kJoinerBegins,     // a node that is to join begins on a worker
  kJoined,           // a change is decided by which a node joins
  kLeft,             // or leaves
  kVoidChange,       // one that nodes were asked about does not come
  kDisturbedChange,  // something happens to somebody who has a part in a change
  kRestartAtChange,  // the coordinator dies when it has saved a change, and told nobody
  kStandsIn,         // a node that has died begins where a worker only stands in
  kLeavesStandIn,    // and leaves it, by a change or for a worker that has room
  // Of all-reduces that go on without nodes that die.
  kDropped,        // a node is left out
  kRingAgain,      // and one more before the others have formed a ring
  kRingFormed,     // a ring of those that are left is decided
  kRingLacks,      // in which some have made a step less than others
  kRingIsOver,     // or all have made all steps
  kFrozenNode,     // a node's process stands still for long, then goes on
  kWordTwice,      // a word about a ring comes once more, at once or later
  kDisturbedRing,  // something happens to somebody who has a part in such a change
  kDisturbedEnd,   // a node dies when another one has just ended its part of the job
  // Of shards with second copies that leave servers.
  kServerDrain,       // a user takes a server out of service
  kNextBackup,        // a copy is to be the backup next, beside the two
  kBackupLeaves,      // it takes the backup's place
  kPrimaryLeaves,     // or the backup that of the primary, and it the backup's
  kNextBackupIsVoid,  // it does not
  kDisturbedMove,     // something happens to one of the three
};
inline constexpr size_t kRares = static_cast<size_t>(Rare::kDisturbedMove) + 1;
// Those that need no second copies come first, then those of jobs whose nodes stay, then those of
// jobs with servers, and those whose shards leave none.
inline constexpr size_t kRaresWithoutCopies = static_cast<size_t>(Rare::kGoneForGood);
inline constexpr size_t kRaresOfStayingNodes = static_cast<size_t>(Rare::kLateWorker);
inline constexpr size_t kRaresWithoutDrops = static_cast<size_t>(Rare::kDropped);
inline constexpr size_t kRaresWithoutMoves = static_cast<size_t>(Rare::kServerDrain);
const char* ToString(Rare rare);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SCENARIO_RARE_H_
