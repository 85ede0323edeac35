#ifndef STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_CORE_H_
#define STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_CORE_H_

#include <cstdint>
#include <functional>
#include <limits>
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
#include "server/coordinator/jobs/job_actions.h"
#include "server/coordinator/jobs/job_table.h"
#include "server/coordinator/jobs/trace_store.h"
#include "server/coordinator/members/job_owner.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/reachability.h"

namespace strata::server {

// Outside effects of the coordinator's core. The core calls these methods in order; they must not
// call back into it.
class CoordinatorActions : public JobActions {
 public:
  // Closes the connection once everything sent before has gone out.
  virtual void Close(SessionId session) = 0;
  // A server has joined. Learn now whether its ports can be reached from here: WatchPorts needs to
  // know.
  virtual void LearnPorts(const Daemon& /*server*/) {}
  // A server's connection has ended; its ports show whether its process has, too. Call
  // CoordinatorCore::OnServerEnded if they were reachable and nobody listens there any more;
  // otherwise do nothing.
  virtual void WatchPorts(const Daemon& /*server*/) {}
  // Called several times a second with new registrations; a failed call is repeated.
  virtual absl::Status PersistSeen(const std::vector<SeenRegistrations::Entry>&) {
    return absl::OkStatus();
  }
  // Returns once the names of all drained daemons are on disk. Errors: the store's.
  virtual absl::Status PersistDraining(const std::vector<std::string>& /*daemons*/) {
    return absl::OkStatus();
  }
};

// The coordinator without sockets, files, clocks and threads: events in, actions out. Every call
// gets the time, which never goes back. One owner.
class CoordinatorCore {
 public:
  struct Options {
    absl::Duration heartbeat = absl::Milliseconds(500);
    // A longer gap between ticks means that the coordinator itself was paused. The gap does not
    // count as silence of any daemon: their messages may still be waiting to be read.
    absl::Duration stalled_after = absl::Milliseconds(500);
    // A connection that has not registered by then is closed.
    absl::Duration register_within = absl::Seconds(10);
    Membership::Options membership;
    Reachability::Options reachability;
    JobTable::Options jobs;
    // How long after a job's end the coordinator waits for the rest of its daemons' traces.
    absl::Duration trace_patience = absl::Seconds(10);
    // Adds the estimated memory of a job's nodes and shards, part by part, to a requested status;
    // may be empty. It is injected because the coordinator does not depend on the workers' code.
    std::function<void(const proto::JobRecord&, proto::JobStatus*)> add_memory_parts;
  };

  // `actions` outlives the core.
  CoordinatorCore(Options options, const std::string& cluster_id, CoordinatorActions* actions);

  // Restores the stored jobs. REQUIRES: called at most once, before anything else.
  void Restore(const std::vector<proto::StoredJob>& jobs, uint32_t next_job_id,
               const std::vector<SeenRegistrations::Entry>& seen, absl::Time now);

  // Restores the names of drained daemons. REQUIRES: as Restore, before it.
  void RestoreDraining(const std::vector<std::string>& daemons);

  // A connection that is to become a daemon's has opened.
  void OnConnected(SessionId session, absl::Time now);
  // The connection sent a message (Register first), or ended.
  void OnMessage(SessionId session, const proto::DaemonMessage& message, absl::Time now);
  void OnDisconnected(SessionId session, absl::Time now);
  // See CoordinatorActions::WatchPorts.
  void OnServerEnded(const std::string& name, uint64_t daemon_id, absl::Time now);
  // Called several times a second.
  void Tick(absl::Time now);

  // See JobTable.
  void OnCheckpointFound(JobId job, const absl::StatusOr<CheckpointFound>& found, absl::Time now) {
    jobs_.OnCheckpointFound(job, found, now);
  }
  void OnCheckpointKept(JobId job, uint64_t clock, const absl::Status& kept, absl::Time now) {
    jobs_.OnCheckpointKept(job, clock, kept, now);
  }

  // Requests of the command line. `token` is random. Errors: see JobTable; NotFound names the
  // job.
  absl::StatusOr<JobId> Submit(const proto::Job& job, const proto::ResumeFrom& resume,
                               uint64_t token, absl::Time now, const Submitter& by = {});
  absl::Status Cancel(JobId job, absl::Time now);
  absl::StatusOr<proto::JobStatus> GetJob(JobId job) const;
  std::optional<JobOwner> OwnerOf(JobId job) const;  // nullopt: no such job
  // Returns a page of the jobs after that one, by id: as many shown jobs as fit in `bytes_max`, but
  // at least one. An empty `is_shown` shows all.
  proto::ListJobsReply ListJobs(JobId after = JobId(0),
                                const std::function<bool(const JobOwner&)>& is_shown = {},
                                size_t bytes_max = std::numeric_limits<size_t>::max()) const;
  // All daemons, in the order in which they joined.
  proto::ListNodesReply ListNodes(absl::Time now) const;
  // A page of the daemons after that name, by name; limits as for ListJobs.
  proto::ListNodesReply ListNodes(absl::Time now, const std::string& after, size_t bytes_max) const;
  // Takes a daemon out of service once that is saved, or puts it back. The shards of a drained
  // server move to others, and a drained server or worker takes nothing new. Errors, one line each,
  // after which nothing has changed: NotFound (no daemon has the name), FailedPrecondition (running
  // jobs need the server and no other is left, or it is not being drained), the store's.
  absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest& request, absl::Time now);
  struct TraceFound {
    TraceStore::Batches batches;
    bool complete = false;  // nothing more will come
  };
  // Errors: NotFound; FailedPrecondition (the job is not traced).
  absl::StatusOr<TraceFound> GetTrace(JobId job, absl::Time now) const;
  const TraceStore& traces() const { return traces_; }
  // Refusals since the start, by cause; callers may add causes.
  std::map<std::string, uint64_t>& refusals() { return refusals_; }

 private:
  proto::DrainReply TellDrain(const Daemon& daemon) const;
  // Checks that the server may be drained, as far as running jobs are concerned.
  absl::Status CheckOthersAreLeft(const Daemon& daemon) const;
  // Drained by its user, or about to stop.
  bool IsTakenOut(const std::string& name) const;
  absl::Status SaveDraining(std::set<std::string> names);
  proto::DaemonStatus StatusOf(const Daemon& daemon, absl::Time now) const;
  void OnRegister(SessionId session, const proto::Register& registration, absl::Time now);
  // `session` has not registered and never will.
  void RefuseNewcomer(SessionId session, const std::string& cause);
  void OnHeartbeat(const std::string& daemon, const proto::Heartbeat& heartbeat, absl::Time now);
  void OnLeaving(const std::string& daemon, absl::Time now);
  void OnTrace(const std::string& daemon, const proto::TraceBatch& batch);
  bool MayHaveMoreFrom(JobId job, const std::string& daemon) const;
  bool IsTraceComplete(const JobEntry& entry, absl::Time now) const;
  // Returns whether the daemon has a part in the job of its message. Refusals are counted if it
  // never had one.
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
  std::map<SessionId, absl::Time> newcomers_;  // connections that have not registered: connected
                                               // since
  std::map<std::string, uint64_t> refusals_;
  bool seen_is_saved_ = true;  // the store has not refused it
  absl::Time ticked_at_ = absl::InfiniteFuture();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_CORE_H_
