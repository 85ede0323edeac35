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

// Decides which queued job may start, and on which workers. Pure; owns when a worker has last
// joined, and reads the jobs, which are the table's.
//
// The queue is first in, first out: a job that waits for slots which running jobs hold holds up all
// later ones. Only a job that waits for nodes or servers which are not there lets others pass.
class JobQueue {
 public:
  struct Verdict {
    enum class Kind {
      kStarts,  // on `blocks`
      kWaits,   // for `reason`, if any is given, and lets later jobs pass
      kBlocks,  // waits for `reason`, and later jobs behind it
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

  // A worker that was not there before has joined.
  void OnWorkerJoined(absl::Time now) { worker_joined_at_ = now; }
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);

  // `may_return`: daemons of before the coordinator's restart may still come back. REQUIRES:
  // entry.queued(), and no earlier job blocks the queue.
  Verdict Decide(const JobEntry& entry, bool may_return, absl::Time now) const;
  // Returns what each worker has free now, but for those that only stand in.
  std::vector<WorkerSlots> Workers() const;
  // The same of those that stand in, and are there.
  std::vector<WorkerSlots> StandIns() const;

 private:
  WorkerSlots SlotsOf(const Daemon& daemon, bool takes_more) const;
  // REQUIRES: the job, with what it wishes, fits on `workers`.
  Verdict StartWhereReached(const RankWish& wish, const JobEntry& entry,
                            const std::vector<WorkerSlots>& workers, absl::Time now) const;

  const absl::Duration settle_after_;
  const std::map<JobId, JobEntry>* const jobs_;
  const Membership* const membership_;
  const ReachedServers* const reached_;
  absl::Time worker_joined_at_ = absl::InfinitePast();
};

// Chooses a worker for a node of a running job, which plays no other node of it, and does not only
// stand in; for one that trains, none where it has failed before.
SpareWorker FindWorker(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                       const ReachedServers& reached, absl::Time now);
// The same for one that has died: where no worker has room, or none but the one where it failed,
// one that stands in is chosen, of those that have the slots free the one that has most; none once
// the node has failed where one stands in.
SpareWorker FindWorkerOrStandIn(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                                const ReachedServers& reached, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_QUEUE_H_
