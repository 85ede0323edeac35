#include "worker/aggregator/ranks_ring.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::worker {

void RanksRing::Stop(uint32_t number) {
  std::atomic<uint32_t>& asked = memory_->header().ring_asked;
  asked.store(std::max(asked.load(), number));
}

absl::StatusOr<std::optional<RanksRing::Answer>> RanksRing::Gather() const {
  const uint32_t asked = memory_->header().ring_asked.load();
  Answer answer;
  for (size_t r = 0; r < ranks_->left().size(); ++r) {
    const proto::RankStopped& stopped = ranks_->stopped()[r];
    if (const std::optional<uint64_t>& steps = ranks_->left()[r]) {
      answer.ring.clock = std::max(answer.ring.clock, *steps);
      answer.ring.is_over = true;
      continue;
    }
    if (stopped.number() < asked) return std::nullopt;
    if (!stopped.has_begun()) {
      return absl::FailedPreconditionError("its ranks have not agreed on the first weights");
    }
    answer.ring.clock = std::max(answer.ring.clock, stopped.steps());
    answer.ring.is_over = answer.ring.is_over || stopped.is_over();
    if (r == 0) answer.nccl_id = stopped.nccl_id();
  }
  return answer;
}

absl::Status RanksRing::Form(const proto::FormRing& forming) {
  proto::RankRing ring;
  ring.set_number(forming.change().number());
  ring.set_nccl_id(forming.nccl_id());
  ring.set_is_over(forming.is_over());
  std::optional<uint32_t> first;
  for (const uint32_t member : forming.nodes()) {
    const auto node = std::find_if(view_.nodes().begin(), view_.nodes().end(),
                                   [&](const auto& one) { return one.node() == member; });
    if (node == view_.nodes().end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "ring %d has node %d, which the job does not have", ring.number(), member));
    }
    if (NodeId(member) == node_) first = ring.ranks();
    ring.set_ranks(ring.ranks() + node->ranks());
  }
  if (!first) {
    return absl::InvalidArgumentError(
        absl::StrFormat("ring %d does not have node %d", ring.number(), node_.value()));
  }
  for (uint32_t r = 0; r < ranks_->left().size(); ++r) {
    ring.set_rank(*first + r);
    ranks_->SendRing(r, ring);
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
