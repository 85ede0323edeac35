#include "server/coordinator/jobs/job_node.h"

#include "absl/strings/str_format.h"

namespace strata::server {

std::string JobNode::Describe() const {
  return ranks == 1 ? absl::StrFormat("worker %s (node %d, rank %d)", daemon, node, first_rank)
                    : absl::StrFormat("worker %s (node %d, ranks %d to %d)", daemon, node,
                                      first_rank, first_rank + ranks - 1);
}

}  // namespace strata::server
