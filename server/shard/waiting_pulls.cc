#include "server/shard/waiting_pulls.h"

#include <utility>

namespace strata::server {

void WaitingPulls::Add(size_t chunk, const Pull& pull) {
  chunks_[chunk].insert_or_assign(pull.node, pull);
}

std::vector<WaitingPulls::Pull> WaitingPulls::Take(size_t chunk) {
  std::vector<Pull> pulls;
  const auto waiting = chunks_.find(chunk);
  if (waiting == chunks_.end()) return pulls;
  for (auto& [node, pull] : waiting->second) pulls.push_back(std::move(pull));
  chunks_.erase(waiting);
  return pulls;
}

void WaitingPulls::Forget(transport::ConnectionId connection) {
  for (auto& [chunk, pulls] : chunks_) {
    std::erase_if(pulls, [&](const auto& one) { return one.second.connection == connection; });
  }
  std::erase_if(chunks_, [](const auto& chunk) { return chunk.second.empty(); });
}

}  // namespace strata::server
