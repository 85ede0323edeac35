#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/core/coordinator_actions.h"
#include "server/coordinator/diagnosis/wait_diagnosis.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/reachability.h"
#include "server/coordinator/placement/placement_choice.h"

namespace strata::server {

// All jobs and the life of each: queued, running (starting, installing, training), ended. A pure
// state machine over the membership; a job whose worker, server or process is gone fails with a
// reason that names it.
//
// The queue is first in, first out: a job that waits for slots which running jobs hold holds up all
// later ones. Only a job that waits for nodes or servers which are not there lets others pass.
class JobTable {
 public:
  struct Options {
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
  };

  // `membership`, `reachability` and `actions` outlive the table.
  JobTable(Options options, uint64_t cluster, const Membership* membership,
           const Reachability* reachability, CoordinatorActions* actions);

  // Once, before anything else. `is_restart`: there may be daemons that are on their way back.
  void Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id, bool is_restart,
               absl::Time now);

  // `token` is random. Errors: InvalidArgument (the job), ResourceExhausted (queue), the store's.
  absl::StatusOr<JobId> Submit(proto::Job job, uint64_t token, absl::Time now);
  absl::Status Cancel(JobId job, absl::Time now);
  // Null when unknown.
  const JobEntry* Find(JobId job) const;
  std::vector<const JobEntry*> All() const;  // by id
  uint32_t SlotsUsedOn(const std::string& daemon) const;
  uint32_t GpuSlotsUsedOn(const std::string& daemon) const;
  std::vector<uint32_t> RunningOn(const std::string& daemon) const;
  // Whether the job was ever placed on this daemon, as far as that is known: of jobs that were
  // forgotten after their end it is taken to be so.
  bool IsPlaced(JobId job, const std::string& daemon) const;

  void OnJoined(const Daemon& daemon, bool returned, absl::Time now);
  void OnLost(const Membership::Lost& lost, absl::Time now);
  void OnNodeReady(const std::string& daemon, const proto::NodeReady& message, absl::Time now);
  void OnJobInstalled(const std::string& daemon, const proto::JobInstalled& message,
                      absl::Time now);
  void OnLinkMeasured(const std::string& daemon, const proto::LinkMeasured& message,
                      absl::Time now);
  void OnNodeFinished(const std::string& daemon, JobId job, absl::Time now);
  void OnNodeFailed(const std::string& daemon, const proto::NodeFailed& message, absl::Time now);
  void OnRankReport(const std::string& daemon, const proto::RankReport& report, absl::Time now);
  void OnCounters(const std::string& daemon, const proto::JobCounters& counters, absl::Time now);
  void OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                      absl::Time now);
  // What running jobs take of the daemon's memory.
  void TakeMemory(const std::string& daemon, const proto::Heartbeat& heartbeat);
  // As Membership's.
  void Excuse(absl::Duration gap, absl::Time now);
  void Tick(absl::Time now);
  // Something that queued jobs may wait for has changed.
  void StartQueued(absl::Time now);

 private:
  // job_queue.cc
  bool StartOrWait(JobEntry* entry, absl::Time now);
  void Start(JobEntry* entry, const std::vector<RankBlock>& blocks, absl::Time now);
  std::vector<WorkerSlots> Workers() const;
  std::string Holders(bool of_gpus) const;
  uint32_t RanksOn(const std::string& daemon, bool of_gpus) const;

  // job_place.cc
  // Of the live servers, by what some workers reach of them.
  struct CommonServers {
    std::vector<const Daemon*> reached;                         // by all of the workers
    std::string pending;                                        // why more may soon be
    std::vector<std::pair<std::string, std::string>> left_out;  // names, and why
  };
  CommonServers ReachedByAll(const std::vector<std::string>& workers, absl::Time now) const;
  RankAllocation AllocateWhereReached(const JobEntry& entry,
                                      const std::vector<WorkerSlots>& workers,
                                      absl::Time now) const;
  void StartWhereReached(JobEntry* entry, const std::vector<WorkerSlots>& workers, absl::Time now);
  std::vector<NodeHost> HostsOf(const std::vector<JobNode>& nodes) const;
  // One connection per peer where all nodes and `servers` share a host and its memory.
  void SettleConnections(JobEntry* entry, const std::vector<ServerShards>& servers) const;
  void Install(JobEntry* entry, absl::Time now);
  void InstallOn(const PlacementChoice& choice, JobEntry* entry, absl::Time now);

  // job_ring.cc
  // Whether the nodes can all-reduce. Errors: InvalidArgument, for the user.
  static absl::Status CheckRing(const JobEntry& entry);
  void InstallRing(JobEntry* entry, absl::Time now);

  // job_table.cc
  JobEntry* Running(uint32_t job);
  bool IsMissing(const JobNode& node) const;
  void Train(JobEntry* entry, absl::Time now);
  void Fail(JobEntry* entry, const std::string& reason, absl::Time now);
  void End(JobEntry* entry, proto::JobState state, const std::string& reason, absl::Time now);
  void NodeCameBack(JobEntry* entry, JobNode* node, bool holds, absl::Time now);
  void ForgetOldest();

  // job_waits.cc
  absl::Time HeardAt(const std::string& daemon, absl::Time now) const;
  JobScene SceneOf(const JobEntry& entry, absl::Time now) const;
  void UpdateWaits(JobEntry* entry, absl::Time now);

  // job_tell.cc
  void Publish(JobEntry* entry, const std::vector<proto::MetricsRecord>& records);
  void SendMetrics(const JobEntry& entry, const proto::MetricsRecord& record);
  void SendTo(const std::string& daemon, const proto::CoordinatorMessage& message);
  void SendStart(const JobEntry& entry, const JobNode& node);
  void SendInstall(const JobEntry& entry, const JobServer& server);
  void SendMeasure(const JobEntry& entry, const JobNode& node);
  void SendRun(const JobEntry& entry, const JobNode& node);
  void SendStop(const std::string& daemon, JobId job, const std::string& reason);
  void SendRemove(const std::string& daemon, JobId job);
  // A failed one is repeated with every tick. Errors: the store's.
  absl::Status Save(JobEntry* entry);
  static std::string NotSaved(const absl::Status& error);  // as a job's reason
  void NotifyStatus(JobEntry* entry);
  void SetReason(JobEntry* entry, const std::string& reason);

  const Options options_;
  const uint64_t cluster_;
  const Membership* const membership_;
  const Reachability* const reachability_;
  CoordinatorActions* const actions_;
  uint32_t next_job_id_ = 1;
  std::map<JobId, JobEntry> jobs_;
  absl::Time started_at_ = absl::InfinitePast();
  bool is_restart_ = false;  // workers that were there before may still come back
  absl::Time worker_joined_at_ = absl::InfinitePast();
  absl::Time news_at_ = absl::InfinitePast();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_TABLE_H_
