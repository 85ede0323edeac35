#include "tests/sim/cluster/watched_endpoint.h"

#include <memory>

#include "tests/sim/cluster/eavesdropper.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

using transport::Event;

WatchedEndpoint::WatchedEndpoint(World* world, const transport::SimEndpoint::Options& options,
                                 Unsealed takes)
    : SealedEndpoint(std::make_unique<transport::SimEndpoint>(&world->network(), options), takes),
      world_(world),
      name_(options.name) {}

absl::Status WatchedEndpoint::Protect(JobId job, const seal::JobKeys& keys) {
  const auto known = keys_.find(job);
  const bool is_same = known != keys_.end() && known->second == keys;
  Eavesdropper* const hears = world_->eavesdropper();
  if (!is_same && hears != nullptr) hears->OnSalt(name_, job.value());
  keys_[job] = keys;
  return SealedEndpoint::Protect(job, keys);
}

void WatchedEndpoint::Forget(JobId job) {
  keys_.erase(job);
  SealedEndpoint::Forget(job);
}

void WatchedEndpoint::Poll(absl::Duration timeout, std::vector<Event>* events) {
  const size_t before = events->size();
  SealedEndpoint::Poll(timeout, events);
  Eavesdropper* const hears = world_->eavesdropper();
  if (hears == nullptr) return;
  for (size_t i = before; i < events->size(); ++i) {
    const Event& event = (*events)[i];
    if (event.kind == Event::Kind::kDisconnected) hears->OnEnded(event.connection);
    if (event.kind != Event::Kind::kFrame) continue;
    hears->OnTaken(event.connection, event.frame, keys_.count(JobId(event.frame.header.job)) > 0);
  }
}

}  // namespace strata::sim
