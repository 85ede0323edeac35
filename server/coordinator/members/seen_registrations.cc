#include "server/coordinator/members/seen_registrations.h"

#include "common/require.h"

namespace strata::server {

void SeenRegistrations::Restore(const std::vector<Entry>& entries) {
  STRATA_REQUIRE(seen_.empty());
  for (const Entry& entry : entries) Note(entry.daemon_id, entry.attempt);
  Saved();
}

uint32_t SeenRegistrations::NewestAttempt(uint64_t daemon_id) const {
  const auto it = seen_.find(daemon_id);
  return it == seen_.end() ? 0 : it->second.attempt;
}

void SeenRegistrations::Note(uint64_t daemon_id, uint32_t attempt) {
  Seen& seen = seen_[daemon_id];
  daemon_of_.erase(seen.order);
  unsaved_.erase(seen.order);
  seen = {.attempt = attempt, .order = next_order_++};
  daemon_of_[seen.order] = daemon_id;
  unsaved_.insert(seen.order);
  if (seen_.size() <= max_) return;
  const auto oldest = daemon_of_.begin();
  unsaved_.erase(oldest->first);
  seen_.erase(oldest->second);
  daemon_of_.erase(oldest);
}

std::vector<SeenRegistrations::Entry> SeenRegistrations::Unsaved() const {
  std::vector<Entry> entries;
  for (const uint64_t order : unsaved_) {
    const uint64_t daemon = daemon_of_.at(order);
    entries.push_back({.daemon_id = daemon, .attempt = seen_.at(daemon).attempt});
  }
  return entries;
}

}  // namespace strata::server
