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
  absl::Time heard_at;                            // of the worker daemon, whatever it said
  const proto::NodeActivity* activity = nullptr;  // newest; null: none yet
  absl::Time activity_at;                         // when it came
  uint64_t reported_step = 0;  // that all its ranks have said to have finished, maybe since
  // Since when each of its servers' requests are the same.
  const std::vector<absl::Time>* lines_since = nullptr;
  std::optional<uint64_t> first_step;  // that its processes began with; none: not known
};

// One shard of a running job.
struct ShardScene {
  std::string daemon;
  uint32_t shard = 0;  // within the daemon
  std::string address;
  bool installed = false;
  absl::Time heard_at;                                   // of the server, whatever it said
  const std::vector<proto::NodeClock>* nodes = {};       // newest; null: none yet
  const std::vector<absl::Time>* nodes_since = nullptr;  // since when each is the same
  absl::Time nodes_at;                                   // when they came
  absl::Time least_since = absl::InfiniteFuture();       // their least clock has not changed
};

// A server that has not taken in yet that the job's nodes change.
struct ChangeScene {
  std::string daemon;
  absl::Time heard_at;  // of the server, whatever it said
};

// All that tells who holds a running job up. Pointers are to what the caller keeps.
struct JobScene {
  enum class Phase { kStarting, kInstalling, kTraining };
  Phase phase = Phase::kTraining;
  absl::Time phase_since;
  bool has_aggregators = true;        // the job has an exchange
  std::optional<uint64_t> staleness;  // steps that an answer may lag; none: async
  bool has_local_steps = false;       // nodes push only now and then
  bool has_quorum = false;            // clocks close without those who are late
  bool ranks_meet = false;            // by NCCL, before their first step
  absl::Duration hang_after;          // see HangWatch; 0: never
  uint64_t first_step = 0;            // that the job began with,
  absl::Time training_since;          // and when, maybe before the coordinator's start
  bool all_nodes_train = true;        // none is being replaced
  bool forms_ring = false;            // nodes stop, to continue without one that died
  std::vector<ChangeScene> changing;  // nodes begin no step of the change before they answer,
  absl::Time changing_since = absl::InfiniteFuture();  // asked since then
  std::vector<NodeScene> nodes;
  std::vector<ShardScene> shards;
};

struct DiagnosisTiming {
  // A wait is named once it takes longer without any progress.
  absl::Duration show_after = absl::Seconds(2);
  // The same of a rank whose process was stopped by a signal: such a one is not only slow.
  absl::Duration show_stopped_after = absl::Seconds(1);
  // A process that says nothing for longer is silent: aggregators and daemons speak once a second.
  absl::Duration silent_after = absl::Seconds(3);
  // Where nobody's words tell why, the nodes that lag are named after so long.
  absl::Duration unexplained_after = absl::Seconds(10);
  size_t waits_max = 16;
};

// Returns the least clock of the nodes that have not retired; UINT64_MAX when all have.
uint64_t LeastClock(const std::vector<proto::NodeClock>& nodes);

// Returns who holds the job up, the longest first. Only culprits are named: a rank that waits for
// weights, an aggregator or a server that waits for another node are not. The list is empty when
// nobody does.
std::vector<proto::Wait> Diagnose(const JobScene& scene, absl::Time now,
                                  const DiagnosisTiming& timing = {});

// The log lines about one job's waits: each long one once, again while it lasts, and that the job
// continues. Pure: time comes in with the calls.
class StallLog {
 public:
  struct Options {
    absl::Duration log_after = absl::Seconds(10);
    // Also for one that ends and begins again: steps that take longer than `log_after` are normal
    // for some jobs.
    absl::Duration again_every = absl::Seconds(60);
    size_t lines_max = 4;  // at a time; the longest waits
  };

  explicit StallLog(Options options) : options_(options) {}
  StallLog() : StallLog(Options()) {}

  // Returns the lines to log now. `waits` are all that are known now, the longest first.
  std::vector<std::string> OnWaits(const proto::JobStatus& job,
                                   const std::vector<proto::Wait>& waits, absl::Time now);

 private:
  Options options_;
  std::map<std::string, absl::Time> logged_at_;  // by who waits
  bool stalled_ = false;                         // the log says so
  double seconds_ = 0;                           // of the longest wait while stalled
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_WAIT_DIAGNOSIS_H_
