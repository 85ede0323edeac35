#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::server {

// One logical node of a job and the worker daemon that plays it.
struct JobNode {
  std::string daemon;
  uint32_t node = 0;
  uint32_t first_rank = 0;
  uint32_t ranks = 0;
  bool ready = false;
  bool finished = false;
  std::optional<uint64_t> steps_made;       // once its ranks make no more
  uint64_t steps = 0;                       // that one of its ranks has published, at least
  proto::NodeReady info;                    // once ready
  std::optional<proto::LinkMeasured> link;  // of an all-reduce, once measured
  // Since when its daemon, back again, does not hold the job (and has not yet said how it ended).
  absl::Time missing_since = absl::InfiniteFuture();
  // Becomes false by a restart of the coordinator, until the daemon is back.
  bool present = true;

  // "worker w2 (node 1, ranks 2 to 3)"
  std::string Describe() const;
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
