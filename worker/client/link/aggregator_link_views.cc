// The part of AggregatorLink that learns who makes which step.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "worker/client/link/aggregator_link.h"

namespace strata::client {

absl::StatusOr<bool> AggregatorLink::LearnViews(uint64_t step, bool waits, Views* views) {
  worker::RankBlock& self = Self();
  worker::NodeHeader& header = memory_->header();
  while (true) {
    const uint32_t seen = self.bell.load();
    const uint64_t told = self.told.load();
    // Against NodeTraining::Close: it says where it closes and then looks here, we the other way
    // round.
    self.told.store(std::max(told, step + 1));
    const uint64_t closed_at = header.views_closed_at.load();
    if (closed_at == 0 || step < closed_at) break;
    self.told.store(told);
    if (!waits) return false;
    self.awaits_view.store(1);
    const absl::Status wanted = CheckWanted();
    if (wanted.ok()) worker::SleepUntilRung(&self, seen, kSleepMs);
    self.awaits_view.store(0);
    if (!wanted.ok()) return wanted;
  }
  while (views->number() < header.view_number.load()) {
    const absl::StatusOr<proto::AggregatorMessage> message = Hear(answer_deadline_);
    if (!message.ok()) return message.status();
    if (absl::Status added = views->Add(message->change_view()); !added.ok()) return added;
  }
  return true;
}

}  // namespace strata::client
