#include "worker/exchange/layers/exchange_layer.h"

#include <utility>

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
  // Also after an error: what is in the actions then is still to be done.
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

}  // namespace strata::worker
