#ifndef STRATA_CLI_RENDER_RENDER_H_
#define STRATA_CLI_RENDER_RENDER_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "proto/control.pb.h"

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

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_H_
