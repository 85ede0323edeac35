#ifndef STRATA_SERVER_COORDINATOR_JOBS_NODE_AGREEMENT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_NODE_AGREEMENT_H_

#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "server/coordinator/jobs/job_node.h"

namespace strata::server {

// Checks that the nodes' answers describe one training, which the job's settings go with. REQUIRES:
// nodes, all ready. Errors: InvalidArgument naming the nodes that differ, the tensor and the field,
// or what the job's schedule lacks.
absl::Status CheckNodesAgree(const proto::Job& job, const std::vector<JobNode>& nodes);

// Checks the id by which NCCL's ranks meet, which node 0 gives. Errors: InvalidArgument.
absl::Status CheckNcclId(const JobNode& node);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_NODE_AGREEMENT_H_
