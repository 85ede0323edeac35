#include "tests/sim/cluster/eavesdropper.h"

#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr size_t kFramesMax = 8;

transport::SimEndpoint::Options Options(World* world) {
  transport::SimEndpoint::Options options;
  options.name = "eavesdropper";
  options.host = world->NextHost();
  options.encode = true;
  options.on_ready = [] {};  // he does not care for answers
  return options;
}

}  // namespace

Eavesdropper::Eavesdropper(World* world)
    : world_(world), endpoint_(&world->network(), Options(world)) {
  world->network().set_tap(
      [this](const std::string& address, transport::ConnectionId connection,
             const wire::Frame& frame) { OnSent(address, connection, frame); });
}

void Eavesdropper::OnSent(const std::string& address, transport::ConnectionId connection,
                          const wire::Frame& frame) {
  if (world_->network().IsOf(connection, &endpoint_)) return;
  Beginning& heard = heard_[connection];
  heard.address = address;
  if (heard.frames.size() < kFramesMax) heard.frames.push_back(frame);
  if (!world_->Takes(Rare::kRepeatedConnection)) return;
  const absl::Duration late =
      world_->random().Between(absl::ZeroDuration(), world_->scenario().outage_max);
  world_->network().After(late, [this, again = heard] { Repeat(again); });
}

void Eavesdropper::Repeat(const Beginning& heard) {
  const auto connection = endpoint_.Connect(heard.address);
  if (!connection.ok()) return;
  for (const wire::Frame& frame : heard.frames) {
    (void)endpoint_.Send(*connection, frame);
  }
}

}  // namespace strata::sim
