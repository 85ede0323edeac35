#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_QUEUE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_QUEUE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/rank_allocation.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {

// Decides which queued job may start, and on which workers. Pure; owns the time when a worker last
// joined; reads the jobs, which the table owns.
//
// The queue is first in, first out: a job that waits for slots held by running jobs blocks all
// later ones. Only a job that waits for absent nodes or servers lets others pass.
class JobQueue {
 public:
  struct Verdict {
    enum class Kind {
      kStarts,  // on `blocks`
      kWaits,   // for `reason`, if given; lets later jobs pass
      kBlocks,  // for `reason`; later jobs wait behind it
      kFails,   // for `reason`
    };
    Kind kind = Kind::kWaits;
    std::string reason;
    std::vector<RankBlock> blocks;
  };

  // A job that can never fit fails once no worker has joined for `settle_after`. `jobs`,
  // `membership` and `reached` outlive the queue.
  JobQueue(absl::Duration settle_after, const std::map<JobId, JobEntry>* jobs,
           const Membership* membership, const ReachedServers* reached);

  // A worker that was not a member has joined.
  void OnWorkerJoined(absl::Time now) { worker_joined_at_ = now; }
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);

  // `may_return`: daemons from before the coordinator's restart may still come back. REQUIRES:
  // entry.queued(), and no earlier job blocks the queue.
  Verdict Decide(const JobEntry& entry, bool may_return, absl::Time now) const;
  // Returns the free slots of each worker, without stand-ins.
  std::vector<WorkerSlots> Workers() const;
  // The same for connected stand-ins.
  std::vector<WorkerSlots> StandIns() const;

 private:
  WorkerSlots SlotsOf(const Daemon& daemon, bool takes_more) const;
  // REQUIRES: `wish` fits on `workers`.
  Verdict StartWhereReached(const RankWish& wish, const JobEntry& entry,
                            const std::vector<WorkerSlots>& workers, absl::Time now) const;

  const absl::Duration settle_after_;
  const std::map<JobId, JobEntry>* const jobs_;
  const Membership* const membership_;
  const ReachedServers* const reached_;
  absl::Time worker_joined_at_ = absl::InfinitePast();
};

// Chooses a worker for a node of a running job: one that runs no other node of the job and is not a
// stand-in. A node that trains does not return to a worker where it failed before.
SpareWorker FindWorker(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                       const ReachedServers& reached, absl::Time now);
// Like FindWorker, for a node that died. If no worker has room, or only the one where it failed, a
// stand-in is chosen: of those with enough free slots the one that has most. None once the node has
// failed on a stand-in.
SpareWorker FindWorkerOrStandIn(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                                const ReachedServers& reached, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_QUEUE_H_
