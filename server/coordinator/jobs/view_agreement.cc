#include "server/coordinator/jobs/view_agreement.h"

#include <algorithm>

#include "common/require.h"

namespace strata::server {

void ViewAgreement::Propose(const proto::ViewChange& change, const std::set<uint32_t>& nodes,
                            absl::Time now) {
  STRATA_REQUIRE(is_idle() && !nodes.empty());
  stage_ = Stage::kProposing;
  change_ = change;
  since_ = now;
  asked_ = nodes;
}

void ViewAgreement::OnPromised(uint32_t node, uint32_t number, uint64_t from_clock) {
  if (!is_proposing() || number != change_.number() || !asked_.contains(node)) return;
  if (from_clock > kClockMax) return;
  promises_.try_emplace(node, from_clock);
}

bool ViewAgreement::RemoveJoiner(uint32_t node) {
  STRATA_REQUIRE(is_proposing());
  auto* const joined = change_.mutable_joined();
  const auto end = std::remove(joined->begin(), joined->end(), node);
  if (end == joined->end()) return true;
  joined->erase(end, joined->end());
  return !joined->empty() && change_.left().empty();
}

std::vector<uint32_t> ViewAgreement::Unanswered() const {
  STRATA_REQUIRE(is_proposing());
  std::vector<uint32_t> nodes;
  for (const uint32_t node : asked_) {
    if (!promises_.contains(node)) nodes.push_back(node);
  }
  return nodes;
}

const proto::ViewChange& ViewAgreement::Decide(uint64_t clock_before) {
  STRATA_REQUIRE(is_proposing() && is_agreed());
  uint64_t clock = clock_before + 1;
  for (const auto& [node, promised] : promises_) clock = std::max(clock, promised);
  change_.set_at_clock(clock);
  return change_;
}

void ViewAgreement::Install(const proto::ViewChange& change, const std::set<std::string>& servers) {
  STRATA_REQUIRE(!is_installing() && change.at_clock() > 0);
  stage_ = Stage::kInstalling;
  change_ = change;
  since_ = absl::InfiniteFuture();
  servers_ = servers;
}

}  // namespace strata::server
