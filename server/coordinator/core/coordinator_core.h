#ifndef STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_CORE_H_
#define STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_CORE_H_

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
#include "server/coordinator/core/coordinator_actions.h"
#include "server/coordinator/diagnosis/trace_store.h"
#include "server/coordinator/jobs/table/job_table.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/reachability.h"
#include "server/coordinator/tenants/job_owner.h"

namespace strata::server {

// The coordinator without sockets, files, clocks and threads: events in, actions out. Every call
// gets the time, which never goes back. One owner.
class CoordinatorCore {
 public:
  struct Options {
    absl::Duration heartbeat = absl::Milliseconds(500);
    // Ticks that lie further apart tell that the coordinator itself stood still: that time counts
    // against no daemon, whose messages may still wait to be read.
    absl::Duration stalled_after = absl::Milliseconds(500);
    // A connection that has not registered by then is ended.
    absl::Duration register_within = absl::Seconds(10);
    Membership::Options membership;
    Reachability::Options reachability;
    JobTable::Options jobs;
    // How long after a job's end its daemons are waited for, which may have more to say of its
    // trace.
    absl::Duration trace_patience = absl::Seconds(10);
    // Fills in what a job's nodes and shards may take of memory, part by part, when its status is
    // asked for; may be empty. From outside, as the workers' part is no business of servers.
    std::function<void(const proto::JobRecord&, proto::JobStatus*)> add_memory_parts;
  };

  // `actions` outlives the core.
  CoordinatorCore(Options options, const std::string& cluster_id, CoordinatorActions* actions);

  // Takes in what the store held. REQUIRES: called at most once, before anything else.
  void Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id,
               const std::vector<SeenRegistrations::Entry>& seen, absl::Time now);

  // The same of the names of daemons that are out of service. REQUIRES: as Restore, before it.
  void RestoreDraining(const std::vector<std::string>& daemons);

  // A connection that is to become a daemon's has begun.
  void OnConnected(SessionId session, absl::Time now);
  // The connection says something, first Register, or ends.
  void OnMessage(SessionId session, const proto::DaemonMessage& message, absl::Time now);
  void OnDisconnected(SessionId session, absl::Time now);
  // See CoordinatorActions::WatchPorts.
  void OnServerEnded(const std::string& name, uint64_t daemon_id, absl::Time now);
  // Is called several times a second.
  void Tick(absl::Time now);

  // See JobTable.
  void OnCheckpointFound(JobId job, const absl::StatusOr<CheckpointFound>& found, absl::Time now) {
    jobs_.OnCheckpointFound(job, found, now);
  }
  void OnCheckpointKept(JobId job, uint64_t clock, const absl::Status& kept, absl::Time now) {
    jobs_.OnCheckpointKept(job, clock, kept, now);
  }

  // What the command line asks for. `token` is random. Errors: see JobTable; NotFound names the
  // job.
  absl::StatusOr<JobId> Submit(const proto::Job& job, const proto::ResumeFrom& resume,
                               uint64_t token, absl::Time now, const Submitter& by = {});
  absl::Status Cancel(JobId job, absl::Time now);
  absl::StatusOr<proto::JobStatus> GetJob(JobId job) const;
  std::optional<JobOwner> OwnerOf(JobId job) const;  // nullopt: no such job
  proto::ListJobsReply ListJobs() const;
  proto::ListNodesReply ListNodes(absl::Time now) const;
  // Takes a daemon out of service, once that is saved, or back into it: a server's shards go to
  // others, and neither servers nor workers take anything new. Errors, each in one line: NotFound
  // (no daemon has the name), FailedPrecondition (running jobs need the server, and no other one is
  // left; it is not being drained), the store's. Nothing has changed after one.
  absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest& request, absl::Time now);
  struct TraceFound {
    TraceStore::Batches batches;
    bool complete = false;  // no more will come
  };
  // Errors: NotFound; FailedPrecondition (the job is not traced).
  absl::StatusOr<TraceFound> GetTrace(JobId job, absl::Time now) const;
  const TraceStore& traces() const { return traces_; }
  // What was refused since the start, by cause; other causes may be added.
  std::map<std::string, uint64_t>& refusals() { return refusals_; }

 private:
  proto::DrainReply TellDrain(const Daemon& daemon) const;
  // Whether a server may be drained, as far as running jobs go.
  absl::Status CheckOthersAreLeft(const Daemon& daemon) const;
  // Drained by its user, or about to end.
  bool IsTakenOut(const std::string& name) const;
  absl::Status SaveDraining(std::set<std::string> names);
  void OnRegister(SessionId session, const proto::Register& registration, absl::Time now);
  // `session` has not registered and never will.
  void RefuseNewcomer(SessionId session, const std::string& cause);
  void OnHeartbeat(const std::string& daemon, const proto::Heartbeat& heartbeat, absl::Time now);
  void OnLeaving(const std::string& daemon, absl::Time now);
  void OnTrace(const std::string& daemon, const proto::TraceBatch& batch);
  bool MayHaveMoreFrom(JobId job, const std::string& daemon) const;
  bool IsTraceComplete(const JobEntry& entry, absl::Time now) const;
  // Returns whether the daemon has a part in the job that it speaks of; a refusal is counted where
  // it never had one.
  bool Concerns(const std::string& daemon, uint32_t job);
  void ExcuseStall(absl::Time now);
  void LoseDaemons(absl::Time now);
  void TryPeers(absl::Time now);
  void EndSilentNewcomers(absl::Time now);
  void SaveSeen();
  void TakeLost(const std::vector<Membership::Lost>& lost, absl::Time now);

  const Options options_;
  const std::string cluster_id_;
  CoordinatorActions* const actions_;
  Membership membership_;
  Reachability reachability_;
  JobTable jobs_;
  TraceStore traces_;
  std::map<SessionId, absl::Time> newcomers_;  // connections that have not registered: since when
  std::map<std::string, uint64_t> refusals_;
  bool seen_is_saved_ = true;  // the store has not refused it
  absl::Time ticked_at_ = absl::InfiniteFuture();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_CORE_H_
