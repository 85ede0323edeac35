#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_actions.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_life.h"
#include "server/coordinator/jobs/job_placer.h"
#include "server/coordinator/jobs/job_queue.h"
#include "server/coordinator/jobs/job_reports.h"
#include "server/coordinator/jobs/node_replacer.h"
#include "server/coordinator/jobs/ring_keeper.h"
#include "server/coordinator/jobs/shard_keeper.h"
#include "server/coordinator/jobs/slot_use.h"
#include "server/coordinator/jobs/view_keeper.h"
#include "server/coordinator/jobs/wait_diagnosis.h"
#include "server/coordinator/members/job_owner.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/reachability.h"
#include "server/coordinator/placement/job_protection.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {

// All jobs: finds those that an event concerns and takes them the next step. A pure state machine
// over the membership; a job whose worker, server or process is gone fails with a reason that names
// it. Owns the entries and when the coordinator started; the queue, the placer and the announcer
// own what is theirs.
class JobTable {
 public:
  struct Options : ShardKeeper::Options, ViewKeeper::Options, RingKeeper::Options {
    // How long a job whose nodes are ready may wait for servers that its nodes do not reach now.
    absl::Duration place_patience = absl::Seconds(10);
    // How long a daemon that came back without a job may take to say how the job ended there.
    absl::Duration missing_grace = absl::Seconds(3);
    // How long the daemons of a running job may take to come back after a restart.
    absl::Duration restart_patience = absl::Seconds(30);
    // A job that can never fit fails once no worker has joined for so long.
    absl::Duration settle_after = absl::Seconds(3);
    // How often followers hear of progress between records.
    absl::Duration news_every = absl::Seconds(1);
    size_t ended_max = 1000;  // jobs kept after their end
    size_t queued_max = 10000;
    DiagnosisTiming diagnosis;
    // Records of a running job kept to be sent again after a break.
    size_t recent_max = 1024;
    // The cluster's protection rules, asked for each job.
    std::function<ProtectionRules()> protection = [] { return ProtectionRules(); };
    // Gives each job that is protected its secret: 32 random bytes.
    std::function<std::string()> new_secret = [] { return std::string(); };
    // Empty: users' jobs wait for nothing of theirs.
    SlotsOfUser slots_of_user;
  };

  // `membership`, `reachability` and `actions` outlive the table.
  JobTable(Options options, uint64_t cluster, const Membership* membership,
           const Reachability* reachability, JobActions* actions);
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  // Takes in what the store held. `is_restart`: there may be daemons that are on their way back.
  // REQUIRES: called at most once, before anything else.
  void Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id, bool is_restart,
               absl::Time now);

  // `token` is random. A request that has been taken in gets the same job again. Errors:
  // InvalidArgument (the job, its protection, or what it resumes from), ResourceExhausted
  // (queue), the store's.
  absl::StatusOr<JobId> Submit(proto::Job job, const proto::ResumeFrom& resume, uint64_t token,
                               absl::Time now, const Submitter& by = {});
  absl::Status Cancel(JobId job, absl::Time now);
  // Returns null when the job is unknown.
  const JobEntry* Find(JobId job) const;
  std::vector<const JobEntry*> All() const;  // by id
  uint32_t SlotsUsedOn(const std::string& daemon) const;
  uint32_t GpuSlotsUsedOn(const std::string& daemon) const;
  std::vector<uint32_t> RunningOn(const std::string& daemon) const;
  // A daemon speaks of the job. Returns which part it has in it, as far as that is known: of jobs
  // that were forgotten after their end all are taken to have one. kHad: it has spoken of the job
  // while it had one, since the coordinator began.
  enum class Part { kHas, kHad, kNever };
  Part PartOf(JobId job, const std::string& daemon);

  void OnJoined(const Daemon& daemon, bool returned, absl::Time now);
  void OnLost(const Membership::Lost& lost, absl::Time now);
  void OnNodeReady(const std::string& daemon, const proto::NodeReady& message, absl::Time now);
  void OnJobInstalled(const std::string& daemon, const proto::JobInstalled& message,
                      absl::Time now);
  void OnLinkMeasured(const std::string& daemon, const proto::LinkMeasured& message,
                      absl::Time now);
  void OnNodeFinished(const std::string& daemon, const proto::NodeFinished& message,
                      absl::Time now);
  void OnNodeFailed(const std::string& daemon, const proto::NodeFailed& message, absl::Time now);
  void OnRankReport(const std::string& daemon, const proto::RankReport& report, absl::Time now);
  void OnCheckpointPart(const std::string& daemon, const proto::CheckpointPart& part,
                        absl::Time now);
  // Results of what JobActions was asked for.
  void OnCheckpointFound(JobId job, const absl::StatusOr<CheckpointFound>& found, absl::Time now);
  void OnCheckpointKept(JobId job, uint64_t clock, const absl::Status& kept, absl::Time now);
  void OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                       absl::Time now);
  void OnBackupInstalled(const std::string& daemon, const proto::BackupInstalled& message,
                         absl::Time now);
  void OnViewPromised(const std::string& daemon, const proto::ViewPromised& message,
                      absl::Time now);
  void OnViewInstalled(const std::string& daemon, const proto::ViewInstalled& message,
                       absl::Time now);
  void OnRingStopped(const std::string& daemon, const proto::RingStopped& message, absl::Time now);
  void OnCounters(const std::string& daemon, const proto::JobCounters& counters, absl::Time now);
  void OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                      absl::Time now);
  // Takes in what running jobs hold of the daemon's memory.
  void TakeMemory(const std::string& daemon, const proto::Heartbeat& heartbeat);
  // Takes running jobs off the servers and workers that are being drained, one step further.
  void LeaveDrained(absl::Time now);
  // Adds what running jobs have on the daemon.
  void TellDrain(const std::string& daemon, proto::DrainReply* reply) const;
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);
  void Tick(absl::Time now);
  // Something that queued jobs may wait for has changed.
  void StartQueued(absl::Time now);

 private:
  // Protects a waiting job that a coordinator without such protection has stored.
  void SettleOld(JobEntry* entry) const;
  JobEntry* FindRunning(uint32_t job);
  // The same; null, too, where the daemon speaks of another attempt.
  template <typename Message>
  JobEntry* FindRunning(const Message& message) {
    JobEntry* entry = FindRunning(message.job_id());
    if (entry == nullptr || entry->stored().record().attempt() != message.attempt()) return nullptr;
    return entry;
  }
  // The node that the daemon plays, and its job; null, too, where earlier processes are meant.
  template <typename Message>
  JobNode* FindNode(const std::string& daemon, const Message& message, JobEntry** entry);
  // Returns the job that the submitter's request has become; nullopt: none.
  std::optional<JobId> FindRequest(const Submitter& by) const;
  // Returns the folder that a job resumes from. Errors: InvalidArgument.
  absl::StatusOr<std::string> ResumeDir(const proto::ResumeFrom& resume, const Submitter& by) const;
  // Checks that no other job that has not ended writes to the job's folder. Errors:
  // InvalidArgument.
  absl::Status CheckFolderIsFree(const proto::Job& job, const Submitter& by) const;
  // Returns whether a queued job waits for its checkpoint; looks for that where nobody does.
  bool HoldsBack(JobEntry* entry, absl::Time now);
  void KeepIfWhole(JobEntry* entry, absl::Time now);
  // Takes in what the job resumes from. Errors: InvalidArgument: it cannot.
  absl::Status TakeCheckpoint(const CheckpointFound& found, JobEntry* entry);
  // Tells a daemon that is back which of the jobs that it holds have ended.
  void StopUnwanted(const Daemon& daemon);
  // The daemon of a server is back. `holds`: it still has the job's weights.
  void OnServerBack(bool holds, JobServer* server, JobEntry* entry, absl::Time now);
  bool IsMissing(const JobNode& node) const;
  // A node is lost, which makes the job's steps or was to.
  void LoseNode(const NodeReplacer::Loss& loss, JobNode* node, JobEntry* entry, absl::Time now);
  // Loses what of a running job has not come back in time.
  void FailIfGone(JobEntry* entry, absl::Time now);
  void ForgetOldest();

  // A look into the store for the checkpoint that a queued job is to resume from.
  struct Look {
    bool is_under_way = false;
    absl::Time again_at = absl::InfinitePast();
  };

  const Options options_;
  const uint64_t cluster_;
  const Membership* const membership_;
  JobActions* const actions_;
  uint32_t next_job_id_ = 1;
  std::map<JobId, JobEntry> jobs_;
  // Daemons that have spoken of the job while they had a part in it; known until a restart.
  std::map<JobId, std::set<std::string>> heard_;
  std::map<JobId, Look> looks_;
  const ReachedServers reached_;
  JobQueue queue_;
  JobPlacer placer_;
  DaemonCommands commands_;
  JobAnnouncer announcer_;
  JobReports reports_;
  JobLife life_;
  NodeReplacer replacer_;
  ShardKeeper keeper_;
  ViewKeeper views_;
  RingKeeper rings_;
  absl::Time started_at_ = absl::InfinitePast();
  bool is_restart_ = false;  // workers that were there before may still come back
  absl::Time news_at_ = absl::InfinitePast();
  size_t ended_kept_ = 0;  // once ForgetOldest has looked
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_
