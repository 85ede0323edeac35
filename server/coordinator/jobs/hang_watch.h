#ifndef STRATA_SERVER_COORDINATOR_JOBS_HANG_WATCH_H_
#define STRATA_SERVER_COORDINATOR_JOBS_HANG_WATCH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/wait_diagnosis.h"

namespace strata::server {

// How long the steps of a job take, by when its slowest rank was seen to have made how many. Pure:
// time comes in with the calls.
class StepPace {
 public:
  // The job trains since `since` and began with the step `first`; its slowest rank has made
  // `steps`. Steps that were made again change nothing.
  void Observe(uint64_t first, absl::Time since, uint64_t steps, absl::Time now);
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);

  // Returns what a step took at the median of those seen last, each seen between two looks as long
  // as the others; of an even number the longer one. Absent: none has been made.
  std::optional<absl::Duration> Median() const;
  // Returns what the job's first step took, with all that comes before it in its processes. Absent:
  // it was not seen, as after a restart of the coordinator.
  std::optional<absl::Duration> first_step() const { return first_step_; }

 private:
  std::optional<uint64_t> steps_;  // the most that were seen
  absl::Time at_;                  // when they were
  bool sees_first_step_ = false;
  std::optional<absl::Duration> first_step_;
  // Steps that were made between two looks.
  struct Made {
    absl::Duration each;
    uint64_t count = 0;
  };
  std::deque<Made> newest_;
};

// A node whose processes live, stand still and hold the whole job up.
struct HungNode {
  uint32_t node = 0;
  absl::Duration idle;
  std::string culprit;  // "its rank 3 at step 57: stopped by a signal"
};

// Decides whether one node of a training job hangs: it has made no progress for longer than the
// job's hang_after and ten of its steps, while every other one waits. It does not count
//  - where a server or another node is named among those that hold the job up,
//  - before the job's first step is made: then processes compile, read and meet,
//  - in the first step of processes that were begun again, before twice what the job's first took,
//  - while a rank that has published nothing of its step uses its cores: it may measure accuracy,
//  - once a rank has made its last step: what its program does then is its own.
// Pure: time comes in with the calls.
class HangWatch {
 public:
  // Takes in what the job does now; to be called about once a second.
  void Observe(const JobScene& scene, absl::Time now);
  // Returns the node that hangs, if one does. `waits`: what Diagnose says of the scene.
  std::optional<HungNode> Find(const JobScene& scene, const std::vector<proto::Wait>& waits,
                               const DiagnosisTiming& timing, absl::Time now) const;
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  // The CPU time of a rank's process.
  struct CpuUse {
    uint64_t ms = 0;  // 0: not known
    absl::Time at;
    absl::Time busy_at;  // when it was last seen to have used some of its share
  };
  // The name of a node that stands still.
  struct Culprit {
    std::optional<uint32_t> rank;  // none: its aggregator
    absl::Duration idle;
  };

  void ObserveCpu(const NodeScene& node);
  // How long the node may stand still; infinite where nothing is known to go by.
  absl::Duration PatienceWith(const JobScene& scene, const NodeScene& node) const;
  std::optional<Culprit> FindCulprit(const NodeScene& node, const DiagnosisTiming& timing,
                                     absl::Time now) const;
  // REQUIRES: there are waits.
  static std::string Describe(const Culprit& culprit, const std::vector<proto::Wait>& waits);
  absl::Duration IdleTime(const NodeScene& node, const proto::RankActivity& rank,
                          absl::Time now) const;

  StepPace pace_;
  std::map<uint32_t, CpuUse> uses_;  // by rank
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_HANG_WATCH_H_
