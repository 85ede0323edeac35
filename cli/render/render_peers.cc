#include "cli/render/render_peers.h"

#include "absl/strings/str_cat.h"

namespace strata::cli {

std::string UnreachedText(const proto::ListNodesReply& nodes) {
  std::string text;
  for (const auto& daemon : nodes.daemons()) {
    for (const auto& peer : daemon.peers()) {
      if (peer.error().empty()) continue;
      absl::StrAppend(&text, "worker ", daemon.name(), " (", daemon.address(),
                      ") cannot reach server ", peer.name(), " at ", peer.address(), ": ",
                      peer.error(), "\n");
    }
  }
  return text;
}

nlohmann::ordered_json PeersJson(const proto::DaemonStatus& worker) {
  auto peers = nlohmann::ordered_json::array();
  for (const auto& peer : worker.peers()) {
    peers.push_back({{"address", peer.address()}, {"name", peer.name()}, {"error", peer.error()}});
  }
  return peers;
}

}  // namespace strata::cli
