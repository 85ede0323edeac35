#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/job/job.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/checkpoint_ledger.h"
#include "server/coordinator/jobs/hang_watch.h"
#include "server/coordinator/jobs/job_activity.h"
#include "server/coordinator/jobs/job_node.h"
#include "server/coordinator/jobs/metrics_merge.h"
#include "server/coordinator/jobs/ring_agreement.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/jobs/view_agreement.h"
#include "server/coordinator/jobs/wait_diagnosis.h"
#include "server/coordinator/members/job_owner.h"
#include "server/coordinator/placement/placement.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {

// The stages of a job's life. A job goes down this list, may skip kMeasuring and kInstalling, and
// may end from any stage. Users see kQueued as QUEUED, kEnded as FINISHED, FAILED or CANCELLED, and
// those between as RUNNING.
enum class JobStage {
  kQueued,      // waits for slots, nodes or servers
  kStarting,    // StartNode sent; waits for NodeReady of all nodes, then for servers
  kMeasuring,   // MeasureLink sent; waits for LinkMeasured of all nodes
  kInstalling,  // InstallJob sent; waits for JobInstalled of all servers
  kTraining,    // RunNode sent; waits for NodeFinished of all nodes
  kEnded,
};

// Concludes who blocks one running job, and keeps the evidence. Pure: time comes in with the calls.
class JobWaits {
 public:
  JobActivity& activity() { return activity_; }
  const JobActivity& activity() const { return activity_; }
  // The newest conclusion, longest wait first.
  const std::vector<proto::Wait>& list() const { return waits_; }
  // The node that hangs, by the same conclusion.
  const std::optional<HungNode>& hung() const { return hung_; }
  // When the current stage was first observed by ObserveStage.
  absl::Time stage_since() const { return stage_since_; }

  void ObserveStage(JobStage stage, absl::Time now);
  // Updates the conclusion; returns the lines to log.
  std::vector<std::string> Update(const JobScene& scene, const proto::JobStatus& status,
                                  const DiagnosisTiming& timing, absl::Time now);
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  JobActivity activity_;
  std::vector<proto::Wait> waits_;
  HangWatch hang_watch_;
  std::optional<HungNode> hung_;
  StallLog stall_log_;
  JobStage stage_seen_ = JobStage::kQueued;
  absl::Time stage_since_;
};

// One job: its stage, its stored state, its nodes and servers, and their reports. The stage changes
// only through the Begin methods and End, which keep the status that users see consistent with it.
class JobEntry {
 public:
  // `resume_dir`: the folder of the checkpoint to resume from; empty: none.
  static JobEntry Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                            const std::string& resume_dir, absl::Time now);
  // Restores the entry after a restart of the coordinator; a running job's daemons are not present
  // yet.
  static JobEntry Restored(const proto::StoredJob& stored);

  // The job as the store keeps it, with its status.
  const proto::StoredJob& stored() const { return stored_; }
  proto::StoredJob* mutable_stored() { return &stored_; }
  JobId id() const { return JobId(stored_.record().job_id()); }
  const proto::Job& job() const { return stored_.record().job(); }
  JobOwner owner() const { return {stored_.status().owner(), stored_.status().tenant()}; }
  proto::JobStatus& status() { return *stored_.mutable_status(); }
  JobStage stage() const { return stage_; }
  bool queued() const { return stage_ == JobStage::kQueued; }
  bool running() const { return !queued() && !ended(); }
  bool ended() const { return stage_ == JobStage::kEnded; }
  bool all_ready() const;  // all nodes that the job starts with
  bool is_elastic() const { return IsElastic(job()); }
  // Returns whether it continues without nodes that die. Such a job is elastic, too.
  bool drops_lost() const { return DropsLost(job()); }
  // Returns whether nodes may join it and leave it as planned.
  bool has_joiners() const { return is_elastic() && !drops_lost(); }
  bool is_ring() const { return job().exchange() == proto::Job::RING; }
  bool on_gpus() const { return job().device() == proto::Job::GPU; }
  bool needs_servers() const { return job().exchange() == proto::Job::PARAMETER_SERVER; }
  // The version of the protocol that all its daemons speak. REQUIRES: it has nodes.
  uint32_t protocol() const { return std::max(stored_.protocol_version(), kProtocolVersionOldest); }

  absl::Span<const JobNode> nodes() const { return nodes_; }
  absl::Span<JobNode> nodes() { return absl::MakeSpan(nodes_); }
  const std::vector<JobServer>& servers() const { return servers_; }
  // The server holds copies of the job's shards from now on.
  void AddServer(JobServer server) { servers_.push_back(std::move(server)); }
  // Returns whether the server was one of the job's.
  bool RemoveServer(const std::string& daemon);
  JobNode* NodeOn(const std::string& daemon);      // null: the daemon has no node of it
  JobServer* ServerOn(const std::string& daemon);  // null: the daemon holds none of its shards
  std::set<std::string> server_names() const;
  // The first participating node, which measures and writes for all. REQUIRES: it has nodes.
  const JobNode& leader() const;
  // Returns how many ranks hold slots, or are to be restarted.
  uint32_t held_ranks() const;

  // Lays the job out over worker nodes: sets the view, and the nodes in the status. REQUIRES:
  // queued().
  void SetView(const std::vector<RankBlock>& blocks);
  // Sets the placement, and the shards in the status. REQUIRES: kStarting. `backups`: by the job's
  // shard; empty: none. Backups lie on `servers`, too; the placement covers the first of `servers`.
  void SetPlacement(const JobPlacement& placement, const std::vector<ServerShards>& servers,
                    const std::vector<std::optional<BackupPlace>>& backups = {});
  // Updates the stored and shown state of a node that was replaced, or has joined or left the job.
  void StoreNode(const JobNode& node);
  // Vacates the node: nobody takes its place, and nobody waits for it.
  void MakeAbsent(JobNode* node);
  // Shows in the status that the nodes change; `ranks` ranks make the steps from then on.
  void ShowChange(const proto::ViewChange& change, uint32_t ranks, const std::string& reason,
                  absl::Time now);
  // Completes the job from the nodes' answers: layout, samples, steps, run directory and the
  // program's optimizer. REQUIRES: all_ready(). Errors: InvalidArgument naming the nodes that
  // differ, or the field of the job that conflicts with their answers.
  absl::Status TakeLayout();

  // The pending change of the nodes, in jobs that nodes may join and leave.
  ViewAgreement& agreement() { return agreement_; }
  const ViewAgreement& agreement() const { return agreement_; }
  // The pending ring of an all-reduce that continues without nodes that died.
  RingAgreement& ring() { return ring_; }
  const RingAgreement& ring() const { return ring_; }

  // The ranks' reports of this attempt.
  MetricsMerge& metrics() { return metrics_; }
  const MetricsMerge& metrics() const { return metrics_; }
  RankStates& rank_states() { return states_; }
  // Who blocks the job, and the evidence.
  JobWaits& waits() { return waits_; }
  const JobWaits& waits() const { return waits_; }
  // Checkpoints of this attempt; until it trains, those of the previous attempt.
  CheckpointLedger& ledger() { return ledger_; }
  // The record that goes into the manifests of the ledger's checkpoints.
  const std::string& ledger_record() const { return ledger_record_; }
  // Updates that record with the current participants.
  void RenewLedgerRecord();

  // Why some servers are left out; empty: none is.
  void SetLeftOut(const std::string& why) { left_out_ = why; }

  // The transitions. Each REQUIRES one of the stages in its comment.
  void BeginStarting(absl::Time now);  // kQueued, with nodes
  void BeginMeasuring();               // kStarting
  void BeginInstalling();              // kStarting
  void BeginTraining(absl::Time now);  // kStarting, kMeasuring, kInstalling
  // Ends the job as FINISHED, FAILED or CANCELLED with a `reason` that the user sees; from any
  // stage but kEnded.
  void End(proto::JobState state, const std::string& reason, absl::Time now);

  // Puts a running or starting job back into the queue for its next attempt. Messages about the
  // previous attempt are ignored from then on.
  void Requeue(const std::string& reason, const std::string& new_secret, absl::Time now);

  // Returns whether the job writes checkpoints or resumes from one.
  bool has_checkpoints() const { return job().has_checkpoint() || !stored_.resume().dir().empty(); }
  // Returns whether the job may start only after the search for its checkpoint.
  bool awaits_checkpoint() const {
    return queued() && has_checkpoints() && !stored_.resume().is_settled();
  }

  // Refreshes progress and steps in the status.
  void RefreshProgress();
  // Returns the status as users see it now.
  proto::JobStatus Shown() const;
  double ElapsedSeconds(absl::Time now) const;

 private:
  proto::JobStatus WithProgress() const;
  void AddWaits(proto::JobStatus* shown) const;
  void SetBackups(const std::vector<ServerShards>& servers,
                  const std::vector<std::optional<BackupPlace>>& backups);
  void BeginLedger();
  // Returns the clock of a finished job's last checkpoint; 0: none, or unknown.
  uint64_t LastCheckpoint() const;
  MetricsMerge MakeMetrics() const;
  // Makes servers install the change that a previous coordinator decided but announced to nobody.
  void GoOnWithChange();

  JobStage stage_ = JobStage::kQueued;
  proto::StoredJob stored_;
  std::vector<JobNode> nodes_;
  std::vector<JobServer> servers_;
  std::string left_out_;
  ViewAgreement agreement_;
  RingAgreement ring_;
  MetricsMerge metrics_;
  RankStates states_;
  JobWaits waits_;
  CheckpointLedger ledger_;
  std::string ledger_record_;
  // Reports of checkpoint parts may have been lost while the coordinator was away.
  bool has_missed_parts_ = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
