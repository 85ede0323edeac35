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

// The stages of a job's life. It goes down this list, may leave out kMeasuring and kInstalling, and
// may end from anywhere. Users see kQueued as QUEUED, kEnded as FINISHED, FAILED or CANCELLED, and
// what lies between as RUNNING.
enum class JobStage {
  kQueued,      // waits for slots, nodes or servers
  kStarting,    // StartNode sent, waits for NodeReady of all nodes, then for servers
  kMeasuring,   // MeasureLink sent, waits for LinkMeasured of all nodes
  kInstalling,  // InstallJob sent, waits for JobInstalled of all servers
  kTraining,    // RunNode sent, waits for NodeFinished of all nodes
  kEnded,
};

// Concludes who holds one running job up, and keeps what that follows from. Pure: time comes in
// with the calls.
class JobWaits {
 public:
  JobActivity& activity() { return activity_; }
  const JobActivity& activity() const { return activity_; }
  // The newest conclusion, the longest wait first.
  const std::vector<proto::Wait>& list() const { return waits_; }
  // The node that hangs, by the same conclusion.
  const std::optional<HungNode>& hung() const { return hung_; }
  // When ObserveStage first saw the stage that it saw last.
  absl::Time stage_since() const { return stage_since_; }

  void ObserveStage(JobStage stage, absl::Time now);
  // Updates the conclusion; returns the lines to log.
  std::vector<std::string> Update(const JobScene& scene, const proto::JobStatus& status,
                                  const DiagnosisTiming& timing, absl::Time now);
  // Does what Membership::Excuse does.
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

// One job: its stage, what is stored of it, its nodes and servers, and what they have reported. The
// stage changes by the Begin methods and by End only, which keep what users see in step with it.
class JobEntry {
 public:
  // `resume_dir`: the checkpoints that it resumes from; empty: none.
  static JobEntry Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                            const std::string& resume_dir, absl::Time now);
  // Makes the entry after a restart of the coordinator; a running job's daemons are not present
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
  bool all_ready() const;  // of those that begin with it
  bool is_elastic() const { return IsElastic(job()); }
  // Returns whether it continues without nodes that die. Such a job is elastic, too.
  bool drops_lost() const { return DropsLost(job()); }
  // Returns whether nodes may join it, and leave it by plan.
  bool has_joiners() const { return is_elastic() && !drops_lost(); }
  bool is_ring() const { return job().exchange() == proto::Job::RING; }
  bool on_gpus() const { return job().device() == proto::Job::GPU; }
  bool needs_servers() const { return job().exchange() == proto::Job::PARAMETER_SERVER; }
  // The version of the protocol that all its daemons speak. REQUIRES: it has nodes.
  uint32_t protocol() const { return std::max(stored_.protocol_version(), kProtocolVersionOldest); }

  absl::Span<const JobNode> nodes() const { return nodes_; }
  absl::Span<JobNode> nodes() { return absl::MakeSpan(nodes_); }
  const std::vector<JobServer>& servers() const { return servers_; }
  // The server holds copies of the job from now on.
  void AddServer(JobServer server) { servers_.push_back(std::move(server)); }
  // Returns whether it was one of the job's.
  bool RemoveServer(const std::string& daemon);
  JobNode* NodeOn(const std::string& daemon);      // null: plays none
  JobServer* ServerOn(const std::string& daemon);  // null: holds none of its shards
  std::set<std::string> server_names() const;
  // The first node of those that take part, which measures and writes for all. REQUIRES: it has
  // nodes.
  const JobNode& leader() const;
  // How many ranks hold slots, or are to be begun again.
  uint32_t held_ranks() const;

  // Lays the job out over worker nodes: the view, and the nodes in the status. REQUIRES: queued().
  void SetView(const std::vector<RankBlock>& blocks);
  // Takes the servers in: the placement, and the shards in the status. REQUIRES: kStarting.
  // `backups`: by the job's shard; empty: there are none. They lie on `servers`, too, of which the
  // placement is made of the first.
  void SetPlacement(const JobPlacement& placement, const std::vector<ServerShards>& servers,
                    const std::vector<std::optional<BackupPlace>>& backups = {});
  // Brings what is stored and shown of a node in step with it, after it was replaced, or has joined
  // or left the job.
  void StoreNode(const JobNode& node);
  // The node's place is free: nobody takes it, and nobody waits for it.
  void MakeAbsent(JobNode* node);
  // Has the status say that the nodes change; `ranks` make the steps from then on.
  void ShowChange(const proto::ViewChange& change, uint32_t ranks, const std::string& reason,
                  absl::Time now);
  // Takes layout, samples, steps, run directory and the program's optimizer from the nodes'
  // answers, which completes the job. REQUIRES: all_ready(). Errors: InvalidArgument naming the
  // nodes that differ, or the job's field that does not go with what they say.
  absl::Status TakeLayout();

  // A change of the nodes that is on its way, where nodes may join and leave the job.
  ViewAgreement& agreement() { return agreement_; }
  const ViewAgreement& agreement() const { return agreement_; }
  // An all-reduce that continues without nodes that have died.
  RingAgreement& ring() { return ring_; }
  const RingAgreement& ring() const { return ring_; }

  // The ranks' reports of this attempt.
  MetricsMerge& metrics() { return metrics_; }
  const MetricsMerge& metrics() const { return metrics_; }
  RankStates& rank_states() { return states_; }
  // Waits of the job, and what causes them.
  JobWaits& waits() { return waits_; }
  const JobWaits& waits() const { return waits_; }
  // Checkpoints of this attempt, and until it trains of the one before.
  CheckpointLedger& ledger() { return ledger_; }
  // The record that the manifests of the ledger's checkpoints have.
  const std::string& ledger_record() const { return ledger_record_; }
  // Has those manifests say what the record says now of who takes part.
  void RenewLedgerRecord();

  // Why the job does without some servers; empty: it has all.
  void SetLeftOut(const std::string& why) { left_out_ = why; }

  // The transitions. Each REQUIRES one of the stages that its comment names.
  void BeginStarting(absl::Time now);  // kQueued, with nodes
  void BeginMeasuring();               // kStarting
  void BeginInstalling();              // kStarting
  void BeginTraining(absl::Time now);  // kStarting, kMeasuring, kInstalling
  // Ends the job as FINISHED, FAILED or CANCELLED, whose `reason` the user sees; from all stages
  // but kEnded.
  void End(proto::JobState state, const std::string& reason, absl::Time now);

  // Puts a job that runs, or is about to, back into the queue, for its next attempt: daemons that
  // still speak of this one are not heard.
  void Requeue(const std::string& reason, const std::string& new_secret, absl::Time now);

  // Returns whether the job writes checkpoints or resumes from one.
  bool has_checkpoints() const { return job().has_checkpoint() || !stored_.resume().dir().empty(); }
  // Returns whether the job may start only once its checkpoint has been looked for.
  bool awaits_checkpoint() const {
    return queued() && has_checkpoints() && !stored_.resume().is_settled();
  }

  // Brings progress and steps in the status up to date.
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
  // Returns the clock of a finished job's last checkpoint; 0: there is none, or it is not known.
  uint64_t LastCheckpoint() const;
  MetricsMerge MakeMetrics() const;
  // Has servers install the change that a coordinator before this one has decided, and told nobody.
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
  // The coordinator was away when parts of checkpoints may have been told.
  bool has_missed_parts_ = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
