#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_PLACER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_PLACER_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/job_protection.h"
#include "server/coordinator/placement/placement_choice.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {

// Decides which servers hold a job whose nodes are ready, and lays its chunks out over them. Pure;
// owns the time since which each job has waited for servers.
class JobPlacer {
 public:
  struct Verdict {
    enum class Kind {
      kPlaced,  // on `choice`; `left_out` says why some servers are not used
      kWaits,   // for `reason`
      kFails,   // for `reason`
    };
    Kind kind = Kind::kPlaced;
    std::string reason;
    PlacementChoice choice;
    std::vector<ServerShards> others;  // other servers that all nodes reach
    std::string left_out;
  };

  // A job waits at most `patience` for servers that its nodes do not reach now. `membership` and
  // `reached` outlive it. `protection`: see JobTable::Options.
  JobPlacer(absl::Duration patience, std::function<ProtectionRules()> protection,
            const Membership* membership, const ReachedServers* reached)
      : patience_(patience),
        protection_(std::move(protection)),
        membership_(membership),
        reached_(reached) {}

  // Chooses servers that all nodes reach and that fit the job's wish, once reachability is known.
  // Waits briefly for servers that are reconnecting or have just joined.
  // REQUIRES: entry.needs_servers(), entry.all_ready().
  Verdict Choose(const JobEntry& entry, absl::Time now);
  // Lays the chunks out over the servers of `choice`, which may be empty, and the backups, if the
  // job wants them, over these and `others`. REQUIRES: kStarting, entry.all_ready(). Errors:
  // InvalidArgument and FailedPrecondition for the user; the job must fail then.
  absl::Status Place(const PlacementChoice& choice, const std::vector<ServerShards>& others,
                     JobEntry* entry) const;
  // Chooses the place for another copy of a running job's shard: on one of `servers` that all of
  // its nodes reach, outside `passed_over`, and on another host than the server `beside` (empty:
  // any host). If there is no place now, `why` says so.
  struct NewBackup {
    std::optional<BackupPlace> place;
    std::vector<ServerShards> servers;
    std::string why;
  };
  NewBackup PlaceOneBackup(const JobEntry& entry, ShardId shard, const std::string& beside,
                           const std::set<std::string>& passed_over, absl::Time now) const;
  // Lays a ring out over the nodes. REQUIRES and errors: as Place.
  absl::Status PlaceOnRing(JobEntry* entry) const;

  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);
  // The job has ended.
  void Forget(JobId job) { waits_since_.erase(job); }

 private:
  // Like ReachedServers, without servers that are being drained.
  ReachedServers::Common Usable(const std::vector<std::string>& workers, absl::Time now) const;
  std::vector<NodeHost> LocateNodes(absl::Span<const JobNode> nodes) const;
  // Gives the job one connection per peer if all nodes and `servers` share a host and its memory:
  // all payloads go by reference then, and headers alone need no second connection.
  void SettleConnections(const std::vector<ServerShards>& servers, JobEntry* entry) const;

  // Returns whether its nodes and `servers` are known to be on one host.
  bool IsOnOneHost(const std::vector<ServerShards>& servers, const JobEntry& entry) const;

  const absl::Duration patience_;
  const std::function<ProtectionRules()> protection_;
  const Membership* const membership_;
  const ReachedServers* const reached_;
  std::map<JobId, absl::Time> waits_since_;
};

// Checks that the nodes can all-reduce among themselves. Errors: InvalidArgument, for the user.
absl::Status CheckRing(const JobEntry& entry);

// Lays the chunks out over the nodes and writes the ring into the record. REQUIRES: kStarting,
// entry->all_ready(). Errors: InvalidArgument, for the user.
absl::Status PlaceRing(JobEntry* entry);

// Writes the algorithm that is faster on the slowest measured link into record and status.
// REQUIRES: all nodes' links are measured.
void ChooseRingAlgorithm(JobEntry* entry);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_PLACER_H_
