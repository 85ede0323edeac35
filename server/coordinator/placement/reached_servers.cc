#include "server/coordinator/placement/reached_servers.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"

namespace strata::server {

ReachedServers::Common ReachedServers::ByAll(const std::vector<std::string>& workers,
                                             absl::Time now) const {
  using State = Reachability::State;
  Common common;
  for (const Daemon* server : membership_->Alive(proto::SERVER)) {
    const std::string& name = server->registration.name();
    Reachability::Verdict worst;
    if (server->session == SessionId()) {
      worst = {State::kTrying, absl::StrFormat("waits for server %s to come back", name)};
    }
    for (const std::string& worker : workers) {
      const Reachability::Verdict verdict = reachability_->Between(worker, name, now);
      if (worst.state != State::kFailed && verdict.state != State::kReached) worst = verdict;
    }
    if (worst.state == State::kReached) common.reached.push_back(server);
    if (worst.state == State::kTrying) common.pending = worst.text;
    if (worst.state == State::kFailed) common.left_out.emplace_back(name, worst.text);
  }
  return common;
}

RankAllocation ReachedServers::Allocate(const RankWish& wish,
                                        const std::vector<WorkerSlots>& workers,
                                        absl::Time now) const {
  const std::vector<const Daemon*> servers = membership_->Alive(proto::SERVER);
  const auto allocate_on = [&](const std::vector<const Daemon*>& needed) {
    std::vector<WorkerSlots> able = workers;
    for (WorkerSlots& worker : able) {
      for (const Daemon* server : needed) {
        if (FreeFor(wish, worker) == 0) break;
        const auto reach = reachability_->Between(worker.daemon, server->registration.name(), now);
        if (reach.state == Reachability::State::kFailed) worker.used = worker.slots;
      }
    }
    return AllocateRanks(wish, able);
  };
  RankAllocation best = allocate_on(servers);
  if (best.outcome == RankAllocation::Outcome::kFits) return best;
  std::pair<size_t, uint32_t> most = {0, 0};  // servers, and the protocol's version
  for (const Daemon* server : servers) {
    RankAllocation allocation = allocate_on({server});
    if (allocation.outcome != RankAllocation::Outcome::kFits) continue;
    const size_t left_out = ByAll(BlockDaemons(allocation.blocks), now).left_out.size();
    const std::pair<size_t, uint32_t> has = {servers.size() - left_out,
                                             allocation.blocks[0].protocol};
    if (has <= most) continue;
    most = has;
    best = std::move(allocation);
  }
  return best;
}

std::vector<std::string> BlockDaemons(const std::vector<RankBlock>& blocks) {
  std::vector<std::string> daemons;
  for (const RankBlock& block : blocks) daemons.push_back(block.daemon);
  return daemons;
}

}  // namespace strata::server
