#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/stored_job.pb.h"

namespace strata::server {

// One logical node of a job and the worker daemon that plays it.
struct JobNode {
  // The node as the coordinator knows it after its restart; its daemon is not back yet. REQUIRES:
  // the job runs.
  static JobNode Restored(const proto::StoredJob& stored, int index);

  std::string daemon;  // empty: the node is lost, and waits for another one
  uint32_t node = 0;
  uint32_t first_rank = 0;
  uint32_t ranks = 0;
  uint32_t incarnation = 1;  // one more with each time that its processes are begun anew
  bool ready = false;        // while training: its newest incarnation has been told to run
  bool finished = false;
  std::optional<uint64_t> steps_made;       // once its ranks make no more
  uint64_t steps = 0;                       // that one of its ranks has published, at least
  proto::NodeReady info;                    // once ready
  std::optional<proto::LinkMeasured> link;  // of an all-reduce, once measured
  // Since when its daemon, back again, does not hold the job (and has not yet said how it ended).
  absl::Time missing_since = absl::InfiniteFuture();
  // Becomes false by a restart of the coordinator, until the daemon is back.
  bool present = true;
  // Since when it waits for a worker, and why it has none.
  absl::Time waits_since = absl::InfiniteFuture();
  std::string waits_for;
  // The worker that it is to be begun again on where it may be, and where it is not if another one
  // does; empty: there is none such.
  std::string takes_first, takes_last;
  // The step that it was known to be in when its processes last ended by themselves.
  std::optional<uint64_t> died_at_step;

  // "worker w2 (node 1, ranks 2 to 3)"
  std::string Describe() const;
  // "node 1 (ranks 2 to 3)"
  std::string DescribeAlone() const;
  bool waits_for_worker() const { return daemon.empty(); }
  // Whether a message is about its newest processes. Daemons of before say no incarnation: theirs
  // are the first.
  template <typename Message>
  bool IsMeant(const Message& message) const {
    return std::max(1u, message.incarnation()) == incarnation;
  }
  bool HasRank(uint32_t rank) const { return rank >= first_rank && rank - first_rank < ranks; }
};

// Whether nodes make as many steps as one another, as far as is known. Errors: InvalidArgument:
// one that has made its last goes on or has made less or more than another; names a rank of each.
absl::Status CheckEqualSteps(const std::vector<JobNode>& nodes);

// A server of a job.
struct JobServer {
  std::string daemon;
  std::vector<uint32_t> job_shards;  // the job's index of each of its shards; kNoShard: none
  std::vector<proto::OwnBackup> backups;
  bool installed = false;
  bool present = true;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_
