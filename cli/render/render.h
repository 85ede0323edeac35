#ifndef STRATA_CLI_RENDER_RENDER_H_
#define STRATA_CLI_RENDER_RENDER_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/render/table.h"
#include "proto/control.pb.h"
#include "proto/keys.pb.h"

namespace strata::cli {

// "queued", "running", ...
std::string StateName(proto::JobState state);

// "alive", "gone, drained", "alive, stands in"
std::string DaemonStateText(const proto::DaemonStatus& daemon);

// Output of commands: text for people, ending in a newline, and JSON for scripts with the field
// names of proto/control.proto, states and roles as lower-case words.
std::string JobsText(const std::vector<proto::JobStatus>& jobs);
std::string JobsJson(const std::vector<proto::JobStatus>& jobs);
std::string JobText(const proto::JobStatus& job);
std::string JobJson(const proto::JobStatus& job);
// One line: {"status": ...} as JobJson's, or {"metrics": ...} as in metrics.jsonl.
std::string EventJson(const proto::FollowEvent& event);
std::string NodesText(const proto::ListNodesReply& nodes);
std::string NodesJson(const proto::ListNodesReply& nodes);
std::string ClusterText(const proto::ListNodesReply& nodes,
                        const std::vector<proto::JobStatus>& jobs);
std::string ClusterJson(const proto::ListNodesReply& nodes,
                        const std::vector<proto::JobStatus>& jobs);

// The documents of JobJson and NodesJson, as parts for larger ones.
nlohmann::ordered_json StatusJson(const proto::JobStatus& job);
nlohmann::ordered_json StatusJson(const proto::ListNodesReply& nodes);

// Lists holders of keys, revoked keys, and open tokens.
std::string KeysText(const proto::ListKeysReply& keys, absl::Time now);
std::string KeysJson(const proto::ListKeysReply& keys);

// Returns rows for a job's table: checkpoints, the checkpoint from which it resumed, restarts, and
// nodes that were replaced, joined or left. Empty if it has none of these.
std::vector<Row> CheckpointRows(const proto::JobStatus& job);

// Adds the same as "checkpoints", "restarts", "replacements" and "nodes_changes".
void AddCheckpoints(const proto::JobStatus& job, nlohmann::ordered_json* json);

// Fills in the parts of the memory formulas (server/shard/shard_budget.h,
// worker/aggregator/core/node_budget.h, gpu_budget.h) of each of the job's nodes and shards, as its
// daemons promise them; for GPUs once a node has reported its promises. Does nothing while the job
// has no chunks, for jobs without an exchange, and for jobs with so many chunks and shards that it
// would take long.
void AddMemoryParts(const proto::JobRecord& record, proto::JobStatus* status);

// The memory formula of a job, part by part, in bytes and in multiples of the model's size: of the
// node, of its GPUs and of the shard with the largest need, and the sums over all. Empty if no
// parts are known.
std::string MemoryTable(const proto::JobStatus& job);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_H_
