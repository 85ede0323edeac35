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

// All jobs: finds those that an event concerns and advances them. A pure state machine over the
// membership; a job whose worker, server or process is gone fails with a reason that names it. Owns
// the entries and the coordinator's start time; the queue, the placer and the announcer own their
// own state.
class JobTable {
 public:
  struct Options : ShardKeeper::Options, ViewKeeper::Options, RingKeeper::Options {
    // How long a job whose nodes are ready may wait for servers that its nodes do not reach now.
    absl::Duration place_patience = absl::Seconds(10);
    // How long a daemon that returned without a job may take to report how the job ended there.
    absl::Duration missing_grace = absl::Seconds(3);
    // How long the daemons of a running job may take to return after a restart of the coordinator.
    absl::Duration restart_patience = absl::Seconds(30);
    // A job that can never fit fails once no worker has joined for this long.
    absl::Duration settle_after = absl::Seconds(3);
    // Interval of progress news to followers between records.
    absl::Duration news_every = absl::Seconds(1);
    size_t ended_max = 1000;  // ended jobs that are kept
    size_t queued_max = 10000;
    DiagnosisTiming diagnosis;
    // Records of a running job that are kept for resending after a lost connection.
    size_t recent_max = 1024;
    // The cluster's protection rules; called for each job.
    std::function<ProtectionRules()> protection = [] { return ProtectionRules(); };
    // Returns the secret for a protected job: 32 random bytes.
    std::function<std::string()> new_secret = [] { return std::string(); };
    // Empty: users have no limits.
    SlotsOfUser slots_of_user;
  };

  // `membership`, `reachability` and `actions` outlive the table.
  JobTable(Options options, uint64_t cluster, const Membership* membership,
           const Reachability* reachability, JobActions* actions);
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  // Restores the stored jobs. `is_restart`: daemons may be on their way back.
  // REQUIRES: called at most once, before anything else.
  void Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id, bool is_restart,
               absl::Time now);

  // `token` is random. A repeated request gets the same job. Errors: InvalidArgument (the job, its
  // protection, or the checkpoint), ResourceExhausted (queue), the store's.
  absl::StatusOr<JobId> Submit(proto::Job job, const proto::ResumeFrom& resume, uint64_t token,
                               absl::Time now, const Submitter& by = {});
  absl::Status Cancel(JobId job, absl::Time now);
  // Returns null when the job is unknown.
  const JobEntry* Find(JobId job) const;
  std::vector<const JobEntry*> All() const;  // by id
  uint32_t SlotsUsedOn(const std::string& daemon) const;
  uint32_t GpuSlotsUsedOn(const std::string& daemon) const;
  std::vector<uint32_t> RunningOn(const std::string& daemon) const;
  // A daemon sent a message about the job. Returns the daemon's part in it, as far as known; every
  // daemon counts as having had a part in jobs that were forgotten after their end. kHad: it has
  // sent such a message while it had a part, since the coordinator's start.
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
  // Results of calls of JobActions.
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
  // Records the memory that running jobs use on the daemon.
  void TakeMemory(const std::string& daemon, const proto::Heartbeat& heartbeat);
  // Moves running jobs off draining servers and workers, one step at a time.
  void LeaveDrained(absl::Time now);
  // Adds what running jobs still have on the daemon.
  void TellDrain(const std::string& daemon, proto::DrainReply* reply) const;
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);
  void Tick(absl::Time now);
  // Something that queued jobs may wait for has changed.
  void StartQueued(absl::Time now);

 private:
  // Settles the protection of a waiting job that was stored by an older coordinator without it.
  void SettleOld(JobEntry* entry) const;
  JobEntry* FindRunning(uint32_t job);
  // Like Find; also null if the message is about another attempt.
  template <typename Message>
  JobEntry* FindRunning(const Message& message) {
    JobEntry* entry = FindRunning(message.job_id());
    if (entry == nullptr || entry->stored().record().attempt() != message.attempt()) return nullptr;
    return entry;
  }
  // Returns the daemon's node and its job; null, too, if earlier processes are meant.
  template <typename Message>
  JobNode* FindNode(const std::string& daemon, const Message& message, JobEntry** entry);
  // Returns the job that this request has already created; nullopt: none.
  std::optional<JobId> FindRequest(const Submitter& by) const;
  // Returns the folder that a job resumes from. Errors: InvalidArgument.
  absl::StatusOr<std::string> ResumeDir(const proto::ResumeFrom& resume, const Submitter& by) const;
  // Checks that no other unfinished job writes to the job's folder. Errors: InvalidArgument.
  absl::Status CheckFolderIsFree(const proto::Job& job, const Submitter& by) const;
  // Returns whether a queued job waits for its checkpoint; starts the search if none is under way.
  bool HoldsBack(JobEntry* entry, absl::Time now);
  void KeepIfWhole(JobEntry* entry, absl::Time now);
  // Makes the job resume from the checkpoint. Errors: InvalidArgument: it cannot.
  absl::Status TakeCheckpoint(const CheckpointFound& found, JobEntry* entry);
  // Tells a returned daemon which of the jobs that it holds have ended.
  void StopUnwanted(const Daemon& daemon);
  // A server's daemon is back. `holds`: it still has the job's weights.
  void OnServerBack(bool holds, JobServer* server, JobEntry* entry, absl::Time now);
  bool IsMissing(const JobNode& node) const;
  // A node was lost that makes the job's steps or was to.
  void LoseNode(const NodeReplacer::Loss& loss, JobNode* node, JobEntry* entry, absl::Time now);
  // Fails running jobs for missing parts that have not returned in time.
  void FailIfGone(JobEntry* entry, absl::Time now);
  void ForgetOldest();

  // A search in the store for the checkpoint that a queued job is to resume from.
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
  // Daemons that sent a message about the job while they had a part in it; known until a restart.
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
  bool is_restart_ = false;  // workers that were there before may still return
  absl::Time news_at_ = absl::InfinitePast();
  size_t ended_kept_ = 0;  // valid once ForgetOldest has run
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_
