#ifndef STRATA_TESTS_SIM_CHECK_SCENARIO_H_
#define STRATA_TESTS_SIM_CHECK_SCENARIO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/sim/sim_network.h"
#include "proto/job.pb.h"
#include "worker/exchange/core/push_window.h"
#include "worker/exchange/server/shard_link.h"

namespace strata::sim {

// Rare branches that the world takes on purpose. Each stands for something that a real network,
// process or peer may do at any time.
enum class Rare : uint8_t {
  kQueueFull,        // an endpoint does not take a frame
  kEarlyResend,      // a repeated push comes before the first can have been answered
  kHelloTwice,       // a shard gets a HELLO again, unexpectedly
  kRetry,            // a shard says RETRY
  kReconnect,        // a connection breaks without a cause
  kSlowRank,         // a rank computes for seconds
  kStoppedNode,      // a node's process is paused, then continues
  kStoppedShard,     // a shard is paused, then continues
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
  kStalledLine,         // a daemon's messages after Register are delayed by seconds
  kOldRegister,         // a Register is replayed by somebody else, at once or later
  kNoAnswer,            // a worker does not say which shards it reaches
  kUnreachable,         // a worker reaches a server's shards only after a while
  kCancel,              // a user cancels a job
  kCoordinatorRestart,  // the coordinator's process dies, another one begins
  kStoppedCoordinator,  // it is paused, then continues
  kLostWorker,          // a worker's processes die; the daemon comes back with nothing
  kLostServer,          // a server's process, likewise
  kSilentDaemon,        // the coordinator receives a daemon's messages only after it has given the
                        // daemon up
  // In sealed jobs.
  kRepeatedConnection,  // all that a node has said over a connection is said again from elsewhere
  // In jobs whose shards have second copies.
  kGoneForGood,    // a server's process dies, and no other one begins
  kStoppedServer,  // a server's process is stopped, then continues
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
  kLateReport,         // a server's report of its copies is delayed
  // In jobs whose nodes come and go.
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
  // In all-reduces that continue without nodes that die.
  kDropped,        // a node is left out
  kRingAgain,      // and one more before the others have formed a ring
  kRingFormed,     // a ring of those that are left is decided
  kRingLacks,      // in which some have made a step less than others
  kRingIsOver,     // or all have made all steps
  kFrozenNode,     // a node's process stands still for long, then goes on
  kWordTwice,      // a word about a ring comes once more, at once or later
  kDisturbedRing,  // something happens to somebody who has a part in such a change
  kDisturbedEnd,   // a node dies when another one has just ended its part of the job
  // In jobs with second copies whose shards leave servers.
  kServerDrain,       // a user takes a server out of service
  kNextBackup,        // a copy is to be the backup next, beside the two
  kBackupLeaves,      // it takes the backup's place
  kPrimaryLeaves,     // or the backup that of the primary, and it the backup's
  kNextBackupIsVoid,  // it does not
  kDisturbedMove,     // something happens to one of the three
};
inline constexpr size_t kRares = static_cast<size_t>(Rare::kDisturbedMove) + 1;
// Order: first the faults that need no second copies, then those of jobs whose nodes stay, then
// those of jobs with servers, and those whose shards leave none.
inline constexpr size_t kRaresWithoutCopies = static_cast<size_t>(Rare::kGoneForGood);
inline constexpr size_t kRaresOfStayingNodes = static_cast<size_t>(Rare::kLateWorker);
inline constexpr size_t kRaresWithoutDrops = static_cast<size_t>(Rare::kDropped);
inline constexpr size_t kRaresWithoutMoves = static_cast<size_t>(Rare::kServerDrain);
const char* ToString(Rare rare);

// Returns the learning rate of a step for jobs whose program reports rates. Adjacent steps have
// different rates.
float SaidRate(uint64_t step);

// One job, as its user would describe it. Its gradients follow from rank, chunk, clock and `data`.
struct JobPlan {
  uint32_t nodes = 1, ranks_per_node = 1;
  uint32_t chunks = 1;
  uint32_t last_chunk_elements = 256;  // the others have 256
  uint64_t clocks = 1;
  uint32_t window = 4;
  uint32_t connections = 1;  // of each pair of peers
  uint32_t replicas = 0;
  bool waits_unprotected = false;
  bool takes_first_weights = false;  // all nodes begin with rank 0's; they offer others
  bool says_rates = false;           // the program says SaidRate in each step
  std::string consistency = "sync {}";
  uint32_t local_steps = 0;  // as in `consistency`
  bool double_buffering = false;
  std::string optimizer = "sgd {}";
  std::string all_reduce;  // the algorithm of exchange: RING; empty: servers
  std::string push, pull;  // encodings; empty: fp32
  // Compute time of the last node's ranks in each step; zero: the same as the others.
  absl::Duration last_node_step;
  // Nodes come and go: the job continues with at least nodes_min and has at most nodes_max; zero:
  // the nodes are fixed.
  uint32_t nodes_min = 0, nodes_max = 0;
  bool replaces = false;     // nodes that die are restarted
  bool drops_lost = false;   // an all-reduce continues without nodes that die, with at least
                             // nodes_min of them
  absl::Duration step_time;  // added for all ranks
  uint32_t data = 1;

  // Returns true if every push leaves its mark in the weights: see ledger.h.
  bool has_ledger() const {
    return optimizer == "sgd {}" && local_steps == 0 && !says_rates && !drops_lost &&
           consistency.find("delay_compensation") == std::string::npos &&
           consistency.find("quorum") == std::string::npos;
  }
  bool is_ring() const { return !all_reduce.empty(); }
  bool is_elastic() const { return nodes_max > 0; }
  // Returns true if its nodes change during the job.
  bool changes_nodes() const { return is_elastic() || drops_lost; }
  // Places for nodes in the job, and their ranks.
  uint32_t places() const { return is_elastic() ? nodes_max : nodes; }
  uint32_t all_ranks() const { return places() * ranks_per_node; }
  // LARS and clipping need norms.
  bool has_norms() const {
    return optimizer.find("lars") != std::string::npos ||
           optimizer.find("clip_norm") != std::string::npos;
  }
  // Returns true if nodes push and take other values than they sum and hold, or at other times.
  bool has_layer() const { return local_steps > 0 || double_buffering || has_norms(); }
  // Returns true if the program names the optimizer; models of the zoo do not.
  bool names_optimizer() const { return says_rates && !has_norms(); }
  bool is_encoded() const { return !push.empty() || !pull.empty(); }
  uint32_t ranks() const { return nodes * ranks_per_node; }
  uint64_t elements() const { return (chunks - 1) * 256 + last_chunk_elements; }
  // What determines the weights of a sync job: jobs of one shape end with the same bits.
  std::string Shape() const;
  proto::Job ToJob() const;
};

// Number of faults of the coordinator and the daemons.
struct ControlFaults {
  uint32_t restarts = 0, pauses = 0;  // of the coordinator
  uint32_t lost_workers = 0, lost_servers = 0, silences = 0;
  // Of servers, from the time at which the first jobs may train.
  uint32_t gone_for_good = 0, back_empty = 0, stops = 0, cut_offs = 0, apart = 0, both_lost = 0;
  // Pause between the loss of a copy and the next one, and how long a server is skipped.
  absl::Duration backup_pause = absl::Seconds(1), passed_over_for = absl::Seconds(30);
  uint64_t fill_ahead_bytes = 4 << 20;  // in flight to a copy that is being filled
  bool disturbs_servers() const {
    return gone_for_good + back_empty + stops + cut_offs + apart + both_lost > 0;
  }
};

// Number of faults of workers of jobs whose nodes come and go.
struct NodeFaults {
  uint32_t spare_workers = 0;  // in addition to those that the jobs begin with
  uint32_t late_workers = 0;   // of these: how many join the cluster later
  uint32_t stand_ins = 0;      // in addition, workers that only stand in
  uint32_t drains = 0, leaves = 0, deaths = 0;
  uint32_t freezes = 0;  // of nodes of an all-reduce that drops dead nodes
  uint32_t server_drains = 0;
  // Of the coordinator: see ViewKeeper.
  absl::Duration change_pause = absl::Seconds(5), joiner_pause = absl::Seconds(20);
};

// A whole run: its participants and faults. Drawn from a seed.
struct Scenario {
  // Bounds of what is drawn.
  struct Limits {
    uint32_t nodes_max = 4, shards_max = 4, chunks_max = 60, jobs_max = 2;
    uint64_t clocks_max = 8;
    bool faults = true;
    // One job of exactly this shape, for measurements.
    std::optional<JobPlan> job;
    double control = 0.25;           // of runs: with faults of the control plane
    double takes_first_weights = 0;  // of jobs without a layer
    double sealed = 0.25;            // of runs: with jobs whose frames are sealed
    worker::PushWindow::Reserve reserve = worker::PushWindow::Reserve::kLowest;
    // Modifies the drawn scenario.
    void (*change)(Scenario* scenario) = nullptr;
  };

  uint64_t seed = 0;
  std::vector<JobPlan> jobs;
  std::vector<uint32_t> shards_of_server;
  // Slots of each worker; 0: enough for all jobs at once.
  uint32_t slots = 0;
  ControlFaults control;
  NodeFaults nodes;
  transport::SimFaults faults;
  bool encode = false;  // frames pass as bytes
  // Of all jobs. In sealed jobs a lost, modified or doubled frame ends its connection, so such
  // faults are rarer.
  proto::Job::Protection protection = proto::Job::PLAIN;
  LinkTiming timing;
  absl::Duration partition_every = absl::InfiniteDuration();
  // The longest pause or outage of anything.
  absl::Duration outage_max = absl::Seconds(3);
  bool other_bits = false;               // a restarted node's gradients differ
  std::array<double, kRares> rare = {};  // chance per opportunity
  worker::PushWindow::Reserve reserve = worker::PushWindow::Reserve::kLowest;

  static Scenario Draw(uint64_t seed, const Limits& limits);
  // Returns true if a job waits for second copies.
  bool waits_unprotected() const;
  bool is_sealed() const { return protection != proto::Job::PLAIN; }
  // One line.
  std::string Describe() const;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_SCENARIO_H_
