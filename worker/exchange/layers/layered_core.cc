#include "worker/exchange/layers/layered_core.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace strata::worker {

ExchangeStage* LayeredCore::top() const {
  if (layers_.empty()) return base_.get();
  return layers_.back().get();
}

absl::Status LayeredCore::PassUp(absl::Status status, CoreActions from, absl::Time now,
                                 CoreActions* actions) {
  for (const auto& layer : layers_) {
    CoreActions left;
    absl::Status filtered = layer->Filter(std::move(from), now, &left);
    if (status.ok()) status = std::move(filtered);
    from = std::move(left);
  }
  std::move(from.wire.begin(), from.wire.end(), std::back_inserter(actions->wire));
  std::move(from.node.begin(), from.node.end(), std::back_inserter(actions->node));
  return status;
}

absl::Status LayeredCore::Start(absl::Time now, CoreActions* actions) {
  CoreActions from;
  absl::Status status = base_->Start(now, &from);
  return PassUp(std::move(status), std::move(from), now, actions);
}

absl::Status LayeredCore::OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                                  absl::Time now, CoreActions* actions) {
  CoreActions from;
  absl::Status status = base_->OnFrame(connection, frame, now, &from);
  return PassUp(std::move(status), std::move(from), now, actions);
}

absl::StatusOr<StoppedRing> LayeredCore::StopRing(uint32_t number, absl::Time now,
                                                  CoreActions* actions) {
  CoreActions from;
  absl::StatusOr<StoppedRing> stopped = base_->StopRing(number, now, &from);
  const absl::Status passed = PassUp(absl::OkStatus(), std::move(from), now, actions);
  if (!passed.ok()) return passed;
  return stopped;
}

absl::Status LayeredCore::FormRing(const proto::FormRing& forming, absl::Time now,
                                   CoreActions* actions) {
  CoreActions from;
  absl::Status status = base_->FormRing(forming, now, &from);
  return PassUp(std::move(status), std::move(from), now, actions);
}

NodeCuts LayeredCore::TakeCuts() {
  NodeCuts cuts = base_->TakeCuts();
  if (cuts_ != nullptr) cuts.own = cuts_->TakeCuts();
  return cuts;
}

void LayeredCore::LetGoOf(NodeCuts::Kind kind, uint64_t clock) {
  if (kind == NodeCuts::Kind::kSlices) return base_->LetGoOf(kind, clock);
  if (cuts_ != nullptr) cuts_->LetGoOf(clock);
}

bool LayeredCore::goes_on() const {
  return base_->goes_on() || std::any_of(layers_.begin(), layers_.end(),
                                         [](const auto& layer) { return layer->goes_on(); });
}

size_t LayeredCore::memory_bytes() const {
  size_t bytes = base_->memory_bytes();
  for (const auto& layer : layers_) bytes += layer->memory_bytes();
  return bytes;
}

}  // namespace strata::worker
