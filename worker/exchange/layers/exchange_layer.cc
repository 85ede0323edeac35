#include "worker/exchange/layers/exchange_layer.h"

#include <utility>

namespace strata::worker {

absl::Status ExchangeLayer::Below(absl::Time now, CoreActions* actions, const Call& call) {
  CoreActions from;
  absl::Status status = call(below_.get(), &from);
  for (WireAction& action : from.wire) actions->wire.push_back(std::move(action));
  // Also after an error: what is in the actions then is still to be done.
  for (NodeAction& action : from.node) {
    absl::Status done = FromBelow(std::move(action), now, actions);
    if (status.ok()) status = std::move(done);
  }
  return status;
}

void ExchangeLayer::Later(absl::Status status) {
  if (later_.ok()) later_ = std::move(status);
}

absl::Status ExchangeLayer::SubmitBelow(ChunkId chunk, absl::Time now, CoreActions* actions) {
  return Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    below->Submit(chunk, from);
    return absl::OkStatus();
  });
}

void ExchangeLayer::FinishBelow(uint64_t clocks, absl::Time now, CoreActions* actions) {
  Later(Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    below->Finish(clocks, now, from);
    return absl::OkStatus();
  }));
}

absl::Status ExchangeLayer::GiveBelow(const NodeAction& asked, Bytes payload, uint32_t samples,
                                      absl::Time now, CoreActions* actions) {
  return Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    return below->OnPayload(asked, std::move(payload), samples, now, from);
  });
}

void ExchangeLayer::Start(absl::Time now, CoreActions* actions) {
  Later(Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    below->Start(now, from);
    return absl::OkStatus();
  }));
}

void ExchangeLayer::OnConnected(LineId line, transport::ConnectionId connection, absl::Time now,
                                CoreActions* actions) {
  Later(Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    below->OnConnected(line, connection, now, from);
    return absl::OkStatus();
  }));
}

void ExchangeLayer::OnConnectFailed(LineId line, const absl::Status& why, absl::Time now,
                                    CoreActions* actions) {
  Later(Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    below->OnConnectFailed(line, why, now, from);
    return absl::OkStatus();
  }));
}

void ExchangeLayer::OnLost(transport::ConnectionId connection, const absl::Status& why,
                           absl::Time now, CoreActions* actions) {
  Later(Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    below->OnLost(connection, why, now, from);
    return absl::OkStatus();
  }));
}

absl::Status ExchangeLayer::OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                                    absl::Time now, CoreActions* actions) {
  return Below(now, actions, [&](ExchangeCore* below, CoreActions* from) {
    return below->OnFrame(connection, frame, now, from);
  });
}

absl::Status ExchangeLayer::OnTime(absl::Time now, CoreActions* actions) {
  if (!later_.ok()) return later_;
  return Below(now, actions,
               [&](ExchangeCore* below, CoreActions* from) { return below->OnTime(now, from); });
}

absl::Time ExchangeLayer::deadline() const {
  return later_.ok() ? below_->deadline() : absl::InfinitePast();
}

}  // namespace strata::worker
