#ifndef STRATA_CLI_RENDER_RENDER_CHECKPOINTS_H_
#define STRATA_CLI_RENDER_RENDER_CHECKPOINTS_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "cli/render/table.h"
#include "proto/control.pb.h"

namespace strata::cli {

// Returns rows for a job's table: checkpoints, the checkpoint from which it resumed, restarts, and
// nodes that were replaced, joined or left. Empty if it has none of these.
std::vector<Row> CheckpointRows(const proto::JobStatus& job);

// Adds the same as "checkpoints", "restarts", "replacements" and "nodes_changes".
void AddCheckpoints(const proto::JobStatus& job, nlohmann::ordered_json* json);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_CHECKPOINTS_H_
