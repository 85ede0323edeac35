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

// Measures how long a job's steps take from the progress of its slowest rank. Pure: time comes in
// with the calls.
class StepPace {
 public:
  // The job has been training since `since`, from the step `first`; its slowest rank has made
  // `steps`. Repeated steps change nothing.
  void Observe(uint64_t first, absl::Time since, uint64_t steps, absl::Time now);
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);

  // Returns the median duration of recent steps. The steps between two observations count as
  // equally long; of an even number the upper median is taken. Absent before the first step.
  std::optional<absl::Duration> Median() const;
  // Returns the duration of the job's first step, including startup of its processes. Absent if it
  // was not observed, as after a restart of the coordinator.
  std::optional<absl::Duration> first_step() const { return first_step_; }

 private:
  std::optional<uint64_t> steps_;  // the most observed so far
  absl::Time at_;                  // when they were observed
  bool sees_first_step_ = false;
  std::optional<absl::Duration> first_step_;
  // Steps that were made between two observations.
  struct Made {
    absl::Duration each;
    uint64_t count = 0;
  };
  std::deque<Made> newest_;
};

// A node whose processes live, but make no progress and block the whole job.
struct HungNode {
  uint32_t node = 0;
  absl::Duration idle;
  std::string culprit;  // "its rank 3 at step 57: stopped by a signal"
};

// Decides whether one node of a training job hangs: it has made no progress for longer than both
// the job's hang_after and ten of its steps, while all others wait. A node does not count as hung
// - if a server or another node is also named as blocking the job,
// - before the job's first step: processes compile, read and connect then,
// - in the first step of restarted processes, until twice the duration of the job's first step,
// - while a rank that has published nothing of its step uses CPU: it may be measuring accuracy,
// - once a rank has made its last step: what its program does then is its own business.
// Pure: time comes in with the calls.
class HangWatch {
 public:
  // Observes the job; to be called about once a second.
  void Observe(const JobScene& scene, absl::Time now);
  // Returns the hung node, if any. `waits`: the result of Diagnose for the scene.
  std::optional<HungNode> Find(const JobScene& scene, const std::vector<proto::Wait>& waits,
                               const DiagnosisTiming& timing, absl::Time now) const;
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  // The CPU time of a rank's process.
  struct CpuUse {
    uint64_t ms = 0;  // 0: unknown
    absl::Time at;
    absl::Time busy_at;  // when it last used a substantial share of CPU time
  };
  // The part of a node that blocks it.
  struct Culprit {
    std::optional<uint32_t> rank;  // absent: its aggregator
    absl::Duration idle;
  };

  void ObserveCpu(const NodeScene& node);
  // How long the node may make no progress; infinite if there is no basis for a limit.
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
