#ifndef STRATA_CLI_RENDER_RENDER_PEERS_H_
#define STRATA_CLI_RENDER_RENDER_PEERS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "proto/control.pb.h"

namespace strata::cli {

// A line for every shard that a worker could not connect to; empty: all are reached.
std::string UnreachedText(const proto::ListNodesReply& nodes);
// The shards that a worker has tried: [{"address": ..., "name": ..., "error": ...}].
nlohmann::ordered_json PeersJson(const proto::DaemonStatus& worker);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_PEERS_H_
