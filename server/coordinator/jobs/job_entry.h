#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/diagnosis/job_activity.h"
#include "server/coordinator/diagnosis/stall_log.h"
#include "server/coordinator/jobs/metrics_merge.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/placement/placement.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {

// Where a running job is. Its state is RUNNING throughout.
enum class JobPhase {
  kNone,        // not running
  kStarting,    // StartNode sent, waits for NodeReady of all nodes
  kMeasuring,   // MeasureLink sent, waits for LinkMeasured of all nodes
  kInstalling,  // InstallJob sent, waits for JobInstalled of all servers
  kTraining,    // RunNode sent, waits for NodeFinished of all nodes
};

// One logical node of a job and the worker daemon that plays it.
struct JobNode {
  std::string daemon;
  uint32_t node = 0;
  uint32_t first_rank = 0;
  uint32_t ranks = 0;
  bool ready = false;
  bool finished = false;
  proto::NodeReady info;                    // once ready
  std::optional<proto::LinkMeasured> link;  // of an all-reduce, once measured
  // Since when its daemon, back again, does not hold the job (and has not yet said how it ended).
  absl::Time missing_since = absl::InfiniteFuture();
  // False after a restart of the coordinator until the daemon is back.
  bool present = true;

  // "worker w2 (node 1, ranks 2 to 3)"
  std::string Describe() const;
};

// A server of a job.
struct JobServer {
  std::string daemon;
  std::vector<uint32_t> job_shards;  // the job's index of each of its shards
  bool installed = false;
  bool present = true;
};

// All that is known of one job. Plain data with the steps that concern nobody else.
struct JobEntry {
  proto::StoredJob stored;
  JobPhase phase = JobPhase::kNone;
  std::vector<JobNode> nodes;
  std::vector<JobServer> servers;
  MetricsMerge metrics;
  // The newest records, the oldest first, for node 0's worker should it miss some in a break.
  std::deque<proto::MetricsRecord> recent;
  bool unsaved = false;   // the store has refused the newest state
  bool has_news = false;  // progress that followers have not seen
  // Who holds it up while it runs, and what that is concluded from.
  std::vector<proto::Wait> waits;
  JobActivity activity;
  StallLog stall_log;
  // Since when all nodes are ready and no servers are chosen; why some servers were not.
  absl::Time place_since = absl::InfiniteFuture();
  std::string left_out;
  JobPhase phase_seen = JobPhase::kNone;  // since phase_since
  absl::Time phase_since;

  JobId id() const { return JobId(stored.record().job_id()); }
  const proto::Job& job() const { return stored.record().job(); }
  proto::JobStatus& status() { return *stored.mutable_status(); }
  proto::JobState state() const { return stored.status().state(); }
  bool running() const { return state() == proto::RUNNING; }
  bool ended() const { return !running() && state() != proto::QUEUED; }
  bool all_ready() const;
  bool is_ring() const { return job().exchange() == proto::Job::RING; }
  bool on_gpus() const { return job().device() == proto::Job::GPU; }
  bool needs_servers() const { return job().exchange() == proto::Job::PARAMETER_SERVER; }

  JobNode* NodeOn(const std::string& daemon);      // null: plays none
  JobServer* ServerOn(const std::string& daemon);  // null: holds none of its shards

  // Lays the job out over worker nodes: the view, and the nodes in the status.
  void SetView(const std::vector<RankBlock>& blocks);
  // Takes the servers in: the placement, and the shards in the status.
  void SetPlacement(const JobPlacement& placement, const std::vector<ServerShards>& servers);
  // From the nodes' answers, which are all there: layout, samples, steps, run directory. Errors:
  // InvalidArgument naming the nodes that differ, or what the job's schedule lacks.
  absl::Status TakeLayout();
  // RunNode goes out.
  void BeginTraining(absl::Time now);
  // Brings progress and steps in the status up to date.
  void RefreshProgress();
  // The status as users see it now.
  proto::JobStatus Shown() const;
  void AddWaits(proto::JobStatus* shown) const;
  proto::JobStatus WithProgress() const;
  double ElapsedSeconds(absl::Time now) const;

  static JobEntry Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                            absl::Time now);
  // After a restart of the coordinator; a running job's daemons are not present yet.
  static JobEntry Restored(const proto::StoredJob& stored);
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
