#include "server/coordinator/jobs/ring_agreement.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/require.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

void RingAgreement::Ask(uint32_t number, const std::set<uint32_t>& nodes, absl::Time now) {
  STRATA_REQUIRE(number > 0 && !nodes.empty());
  End();
  number_ = number;
  for (const uint32_t node : nodes) asked_[node] = now;
}

void RingAgreement::AskAgain(uint32_t node, absl::Time now) {
  if (const auto it = asked_.find(node); it != asked_.end()) it->second = now;
}

absl::Status RingAgreement::OnStopped(const proto::RingStopped& stopped) {
  if (!is_asking() || stopped.number() != number_ || !asked_.contains(stopped.node())) {
    return absl::OkStatus();
  }
  if (!stopped.error().empty()) return absl::FailedPreconditionError(stopped.error());
  if (stopped.clock() > kClockMax || stopped.from_clock() > kClockMax) return absl::OkStatus();
  heard_.try_emplace(stopped.node(), stopped);
  return absl::OkStatus();
}

void RingAgreement::OnFinished(uint32_t node) {
  asked_.erase(node);
  heard_.erase(node);
  has_finished_ = true;
}

std::vector<uint32_t> RingAgreement::Unanswered() const {
  return UnansweredSince(absl::InfiniteFuture());
}

std::vector<uint32_t> RingAgreement::UnansweredSince(absl::Time asked) const {
  STRATA_REQUIRE(is_asking());
  std::vector<uint32_t> nodes;
  for (const auto& [node, since] : asked_) {
    if (since < asked && !heard_.contains(node)) nodes.push_back(node);
  }
  return nodes;
}

absl::StatusOr<proto::FormRing> RingAgreement::Decide(uint64_t clock_before) const {
  STRATA_REQUIRE(is_agreed() && !heard_.empty());
  const auto has_less = [](const auto& one, const auto& other) {
    return one.second.clock() < other.second.clock();
  };
  const auto least = std::min_element(heard_.begin(), heard_.end(), has_less);
  const auto most = std::max_element(heard_.begin(), heard_.end(), has_less);
  const uint64_t clock = most->second.clock(), behind = clock - least->second.clock();
  proto::FormRing forming;
  forming.set_clock(clock);
  forming.set_some_lack(behind > 0);
  forming.set_is_over(has_finished_);
  uint64_t from_clock = std::max(clock, clock_before) + 1;
  for (const auto& [node, stopped] : heard_) {
    forming.add_nodes(node);
    from_clock = std::max<uint64_t>(from_clock, stopped.from_clock());
    if (stopped.is_over()) forming.set_is_over(true);
  }
  forming.set_nccl_id(heard_.begin()->second.nccl_id());
  forming.mutable_change()->set_number(number_);
  forming.mutable_change()->set_at_clock(from_clock);
  // A step's mean needs all nodes' sums, and the last one is made once all have it.
  if (behind <= (forming.is_over() ? 0 : 1)) return forming;
  return absl::InvalidArgumentError(absl::StrFormat(
      "node %d has made %d steps and node %d %d, %s", most->first, clock, least->first,
      least->second.clock(),
      forming.is_over() ? "though all are to have made all" : "which no all-reduce leaves"));
}

void RingAgreement::Excuse(absl::Duration gap, absl::Time now) {
  for (auto& [node, since] : asked_) since = Excused(since, gap, now);
}

}  // namespace strata::server
