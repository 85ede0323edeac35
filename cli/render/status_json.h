#ifndef STRATA_CLI_RENDER_STATUS_JSON_H_
#define STRATA_CLI_RENDER_STATUS_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "proto/control.pb.h"

namespace strata::cli {

// What JobJson and NodesJson (render.h) print, for who puts it into a document of its own.
nlohmann::ordered_json StatusJson(const proto::JobStatus& job);
nlohmann::ordered_json StatusJson(const proto::ListNodesReply& nodes);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_STATUS_JSON_H_
