#ifndef STRATA_SERVER_COORDINATOR_JOBS_WAIT_DIAGNOSIS_H_
#define STRATA_SERVER_COORDINATOR_JOBS_WAIT_DIAGNOSIS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::server {

// One node of a running job, as far as the coordinator knows.
struct NodeScene {
  uint32_t node = 0;
  std::string daemon;
  bool finished = false;
  bool ready = false;                             // has registered its tensors
  absl::Time heard_at;                            // last message of the worker daemon, of any kind
  const proto::NodeActivity* activity = nullptr;  // newest; null: none yet
  absl::Time activity_at;                         // time of the newest activity
  uint64_t reported_step = 0;  // that all its ranks have reported as finished, possibly later than
                               // `activity`
  // For each of its servers, since when its requests have been the same.
  const std::vector<absl::Time>* lines_since = nullptr;
  std::optional<uint64_t> first_step;  // first step of its processes; absent: unknown
};

// One shard of a running job.
struct ShardScene {
  std::string daemon;
  uint32_t shard = 0;  // within the daemon
  std::string address;
  bool installed = false;
  absl::Time heard_at;                                   // last message of the server, of any kind
  const std::vector<proto::NodeClock>* nodes = {};       // newest; null: none yet
  const std::vector<absl::Time>* nodes_since = nullptr;  // since when each has been the same
  absl::Time nodes_at;                                   // time of the newest `nodes`
  absl::Time least_since = absl::InfiniteFuture();       // since when their least clock has been
                                                         // the same
};

// A server that has not installed a change of the job's nodes yet.
struct ChangeScene {
  std::string daemon;
  absl::Time heard_at;  // last message of the server, of any kind
};

// Everything needed to diagnose who blocks a running job. Pointers belong to the caller.
struct JobScene {
  enum class Phase { kStarting, kInstalling, kTraining };
  Phase phase = Phase::kTraining;
  absl::Time phase_since;
  bool has_aggregators = true;        // the job has an exchange
  std::optional<uint64_t> staleness;  // steps that an answer may lag; absent: async
  bool has_local_steps = false;       // nodes push only every few steps
  bool has_quorum = false;            // clocks close without late nodes
  bool ranks_meet = false;            // ranks connect by NCCL before their first step
  absl::Duration hang_after;          // see HangWatch; 0: never
  uint64_t first_step = 0;            // the step that the job began with,
  absl::Time training_since;          // and its time, possibly before the coordinator's start
  bool all_nodes_train = true;        // no node is being replaced
  bool forms_ring = false;            // nodes stop, to continue without one that died
  std::vector<ChangeScene> changing;  // nodes begin no step of the change before these answer,
  absl::Time changing_since = absl::InfiniteFuture();  // which were asked at this time
  std::vector<NodeScene> nodes;
  std::vector<ShardScene> shards;
};

struct DiagnosisTiming {
  // A wait is shown once it has lasted this long without any progress.
  absl::Duration show_after = absl::Seconds(2);
  // The same for a rank whose process was stopped by a signal: it is certainly not just slow.
  absl::Duration show_stopped_after = absl::Seconds(1);
  // A process without messages for longer is silent: aggregators and daemons report once a second.
  absl::Duration silent_after = absl::Seconds(3);
  // If no report explains a stall, the lagging nodes are named after this time.
  absl::Duration unexplained_after = absl::Seconds(10);
  size_t waits_max = 16;
};

// Returns the least clock of the nodes that have not retired; UINT64_MAX when all have.
uint64_t LeastClock(const std::vector<proto::NodeClock>& nodes);

// Returns who blocks the job, longest first; empty if nobody does. Only culprits are named, not
// those that wait for them: a rank that waits for weights, an aggregator or a server that waits for
// another node.
std::vector<proto::Wait> Diagnose(const JobScene& scene, absl::Time now,
                                  const DiagnosisTiming& timing = {});

// The log lines about one job's waits: each long wait once, then repeatedly while it lasts, and a
// line when the job continues. Pure: time comes in with the calls.
class StallLog {
 public:
  struct Options {
    absl::Duration log_after = absl::Seconds(10);
    // Also the interval for a wait that ends and begins again: steps longer than `log_after` are
    // normal for some jobs.
    absl::Duration again_every = absl::Seconds(60);
    size_t lines_max = 4;  // at a time; the longest waits
  };

  explicit StallLog(Options options) : options_(options) {}
  StallLog() : StallLog(Options()) {}

  // Returns the lines to log now. `waits`: all current waits, longest first.
  std::vector<std::string> OnWaits(const proto::JobStatus& job,
                                   const std::vector<proto::Wait>& waits, absl::Time now);

 private:
  Options options_;
  std::map<std::string, absl::Time> logged_at_;  // by waiter
  bool stalled_ = false;                         // the log says so
  double seconds_ = 0;                           // duration of the longest wait while stalled
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_WAIT_DIAGNOSIS_H_
