#ifndef STRATA_SERVER_COORDINATOR_JOBS_NODE_AGREEMENT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_NODE_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"
#include "server/coordinator/jobs/job_node.h"

namespace strata::server {

// Checks that the nodes' answers describe one training. REQUIRES: nodes, all ready. Errors:
// InvalidArgument naming the nodes that differ, the tensor and the field.
absl::Status CheckNodesAgree(const std::vector<JobNode>& nodes);

// Checks that a node that takes another's place is about to train what the others of the job do.
// `total_steps`: see StoredJob. REQUIRES: it is ready. Errors: InvalidArgument naming the node, the
// tensor and the field.
absl::Status CheckTakesPlace(const proto::JobRecord& record, uint64_t total_steps,
                             const JobNode& node);

// Checks that what all nodes train goes with the job's settings, which its program has completed.
// Errors: InvalidArgument naming the tensor and the field, or what the job's schedule lacks.
absl::Status CheckFitsJob(const proto::Job& job, const JobNode& node);

// Checks the id by which NCCL's ranks meet, which the first node of them gives. Errors:
// InvalidArgument.
absl::Status CheckNcclId(const JobNode& node, const std::string& id);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_NODE_AGREEMENT_H_
