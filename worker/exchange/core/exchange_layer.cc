#include "worker/exchange/core/exchange_layer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "worker/exchange/core/cut_layer.h"

namespace strata::worker {

absl::Status ExchangeLayer::Filter(CoreActions from, absl::Time now, CoreActions* actions) {
  absl::Status status;
  for (WireAction& action : from.wire) actions->wire.push_back(std::move(action));
  for (NodeAction& action : from.node) {
    absl::Status done = FromBelow(std::move(action), now, actions);
    if (status.ok()) status = std::move(done);
  }
  return status;
}

absl::Status ExchangeLayer::Below(absl::Time now, CoreActions* actions,
                                  const std::function<absl::Status(CoreActions* from)>& call) {
  CoreActions from;
  absl::Status status = call(&from);
  // Even after an error, the actions must be performed.
  absl::Status filtered = Filter(std::move(from), now, actions);
  return status.ok() ? filtered : status;
}

absl::Status ExchangeLayer::SubmitBelow(ChunkId chunk, absl::Time now, CoreActions* actions) {
  return Below(now, actions, [&](CoreActions* from) { return below_->Submit(chunk, now, from); });
}

absl::Status ExchangeLayer::FinishBelow(uint64_t clocks, absl::Time now, CoreActions* actions) {
  return Below(now, actions, [&](CoreActions* from) { return below_->Finish(clocks, now, from); });
}

absl::Status ExchangeLayer::GiveBelow(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                      absl::Time now, CoreActions* actions) {
  return Below(now, actions, [&](CoreActions* from) {
    return below_->OnPayload(asked, std::move(payload), step, now, from);
  });
}

ExchangeStage* LayeredCore::top() const {
  if (layers_.empty()) return base_.get();
  return layers_.back().get();
}

void LayeredCore::AddCuts(std::unique_ptr<CutLayer> layer) {
  cuts_ = layer.get();
  Add(std::move(layer));
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

absl::Status LayeredCore::OnLinkEvent(const LinkEvent& event, absl::Time now,
                                      CoreActions* actions) {
  CoreActions from;
  absl::Status status = base_->OnLinkEvent(event, now, &from);
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

void LayeredCore::ReleaseCut(NodeCuts::Kind kind, uint64_t clock) {
  if (kind == NodeCuts::Kind::kSlices) return base_->ReleaseCut(kind, clock);
  if (cuts_ != nullptr) cuts_->ReleaseCut(clock);
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
