#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/job/job.h"
#include "proto/control.pb.h"
#include "server/coordinator/checkpoints/checkpoint_ledger.h"
#include "server/coordinator/jobs/job_node.h"
#include "server/coordinator/jobs/job_stage.h"
#include "server/coordinator/jobs/job_waits.h"
#include "server/coordinator/jobs/metrics/metrics_merge.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/jobs/views/ring_agreement.h"
#include "server/coordinator/jobs/views/view_agreement.h"
#include "server/coordinator/placement/backup_placement.h"
#include "server/coordinator/placement/placement.h"
#include "server/coordinator/placement/rank_allocation.h"
#include "server/coordinator/tenants/job_owner.h"

namespace strata::server {

// One job: its stage, what is stored of it, its nodes and servers, and what they have reported. The
// stage changes by the Begin methods and by End only, which keep what users see in step with it.
class JobEntry {
 public:
  // `resume_dir`: of the checkpoints that it goes on from; empty: it begins anew.
  static JobEntry Submitted(JobId id, uint64_t token, uint64_t cluster, const proto::Job& job,
                            const std::string& resume_dir, absl::Time now);
  // Makes the entry after a restart of the coordinator; a running job's daemons are not present
  // yet.
  static JobEntry Restored(const proto::StoredJob& stored);

  JobId id() const { return JobId(stored.record().job_id()); }
  const proto::Job& job() const { return stored.record().job(); }
  JobOwner owner() const { return {stored.status().owner(), stored.status().tenant()}; }
  proto::JobStatus& status() { return *stored.mutable_status(); }
  JobStage stage() const { return stage_; }
  bool queued() const { return stage_ == JobStage::kQueued; }
  bool running() const { return !queued() && !ended(); }
  bool ended() const { return stage_ == JobStage::kEnded; }
  bool all_ready() const;  // of those that begin with it
  bool is_elastic() const { return IsElastic(job()); }
  // Whether it goes on without nodes that die. Such a job is elastic, too.
  bool drops_lost() const { return DropsLost(job()); }
  // Whether nodes may join it, and leave it by plan.
  bool has_joiners() const { return is_elastic() && !drops_lost(); }
  bool is_ring() const { return job().exchange() == proto::Job::RING; }
  bool on_gpus() const { return job().device() == proto::Job::GPU; }
  bool needs_servers() const { return job().exchange() == proto::Job::PARAMETER_SERVER; }
  // The version of the protocol that all its daemons speak. REQUIRES: it has nodes.
  uint32_t protocol() const { return std::max(stored.protocol_version(), kProtocolVersionOldest); }

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

  // Has the manifests of checkpoints say what the record says now of who takes part.
  void RenewLedgerRecord();

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

  // Whether the job writes checkpoints or goes on from one.
  bool has_checkpoints() const { return job().has_checkpoint() || !stored.resume().dir().empty(); }
  // Whether the store has yet to be looked into before the job may start.
  bool awaits_checkpoint() const {
    return queued() && has_checkpoints() && !stored.resume().is_settled();
  }

  // Brings progress and steps in the status up to date.
  void RefreshProgress();
  // Returns the status as users see it now.
  proto::JobStatus Shown() const;
  double ElapsedSeconds(absl::Time now) const;

  proto::StoredJob stored;
  std::vector<JobNode> nodes;
  std::vector<JobServer> servers;
  // Of a running job whose shards lie twice: when the next second copy may be made, and until when
  // servers are passed over for them.
  absl::Time next_backup_at = absl::InfinitePast();
  std::map<std::string, absl::Time> passed_over;
  // Daemons that have spoken of the job while they had a part in it; known until a restart.
  std::set<std::string> heard;
  std::map<std::string, std::string> stays;  // by server that is drained: why shards stay there now
  std::string left_out;  // why the job does without some servers; empty: it has all
  std::string replaces;  // what the status's reason says of nodes that are being replaced
  // Of a job whose nodes may join and leave it: a change that is on its way, when its nodes and
  // servers are asked again, and when the next one may begin, or the next node.
  ViewAgreement agreement;
  RingAgreement ring;  // of an all-reduce that goes on without nodes that have died
  absl::Time asks_again_at = absl::InfinitePast();
  absl::Time next_change_at = absl::InfinitePast();
  absl::Time next_joiner_at = absl::InfinitePast();
  std::map<std::string, std::string> keeps;  // by worker that is drained: why nodes stay there now
  MetricsMerge metrics;
  JobWaits waits;
  CheckpointLedger ledger;            // of this attempt, and until it trains of the one before
  bool has_missed_parts = false;      // the coordinator was away when some may have been told
  std::string ledger_record;          // that manifests of the ledger's checkpoints have
  bool looks_for_checkpoint = false;  // the store is being looked into
  absl::Time looks_again = absl::InfinitePast();

 private:
  proto::JobStatus WithProgress() const;
  void AddWaits(proto::JobStatus* shown) const;
  void SetBackups(const std::vector<ServerShards>& servers,
                  const std::vector<std::optional<BackupPlace>>& backups);
  void BeginLedger();
  MetricsMerge MakeMetrics() const;
  // Has servers install the change that a coordinator before this one has decided, and told nobody.
  void GoOnWithChange();

  JobStage stage_ = JobStage::kQueued;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ENTRY_H_
