#ifndef STRATA_CLI_RENDER_RENDER_REFUSALS_H_
#define STRATA_CLI_RENDER_RENDER_REFUSALS_H_

#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace strata::cli {

// What the coordinator and the daemons have refused, a line each, the most frequent cause first:
// "  refused by s0: 12 malformed, 3 before HELLO". Empty where nothing was.
std::string RefusalsText(const proto::ListNodesReply& nodes);
// Returns the same lines for the daemons that a job runs on alone.
std::string RefusalsText(const proto::ListNodesReply& nodes, const proto::JobStatus& job);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_REFUSALS_H_
