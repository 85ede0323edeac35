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
  // does, for as long as it has not trained elsewhere than where one stands in; empty: there is
  // none such.
  std::string takes_first, takes_last;
  // The step that it was known to be in when its processes last ended by themselves.
  std::optional<uint64_t> died_at_step;
  bool replaced = false;  // its processes take the place of others that died
  // Why an all-reduce goes on without it, until a change of the nodes says so.
  std::string dropped;

  // Of a job whose nodes may join and leave it:
  bool absent = false;  // nobody takes its place, and nobody waits for it: it is finished, too
  bool joins = false;   // its processes begin, and no change that was decided has it
  bool waits_to_run = false;  // they are ready, and are told to run with a change of the nodes
  uint64_t joined_at = 0;     // the first step that it makes; 0: it was there from the start
  std::optional<uint64_t> leaves_at;  // the step before which it makes its last one

  // "worker w2 (node 1, ranks 2 to 3)"
  std::string Describe() const;
  // "node 1 (ranks 2 to 3)"
  std::string DescribeAlone() const;
  bool waits_for_worker() const { return daemon.empty() && !absent; }
  // Whether it is one of those that make the job's steps, or is to be begun again as such.
  bool takes_part() const { return !absent && !joins; }
  // Whether a message is about its newest processes. Daemons of before say no incarnation: theirs
  // are the first.
  template <typename Message>
  bool IsMeant(const Message& message) const {
    return std::max(1u, message.incarnation()) == incarnation;
  }
  bool HasRank(uint32_t rank) const { return rank >= first_rank && rank - first_rank < ranks; }
};

// Whether nodes make as many steps as one another, as far as is known; those that leave before the
// last step, or would only come after it, are of no account. Errors: InvalidArgument: one that has
// made its last goes on or has made less or more than another; names a rank of each.
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
