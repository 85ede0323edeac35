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
  while (true) {
    for (; !changes_.empty(); changes_.pop_front()) {
      if (absl::Status added = views->Add(changes_.front()); !added.ok()) return added;
    }
    if (views->number() >= header.view_number.load()) return true;
    const absl::StatusOr<proto::AggregatorMessage> message = Hear(answer_deadline_);
    if (!message.ok()) return message.status();
    if (!Keep(*message)) {
      return absl::InternalError("the aggregator does not say how the job's nodes change");
    }
  }
}

bool AggregatorLink::Keep(const proto::AggregatorMessage& message) {
  if (message.has_change_view()) changes_.push_back(message.change_view());
  if (message.has_form_ring()) ring_ = message.form_ring();
  return message.has_change_view() || message.has_form_ring();
}

}  // namespace strata::client
