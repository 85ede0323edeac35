#include "worker/aggregator/core/view_gate.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::worker {

std::optional<uint64_t> ViewGate::Promise(uint32_t number, Close close, uint64_t margin) {
  if (number <= std::max(heard_, views_.number())) return std::nullopt;
  if (promised_ && promised_->number > number) return std::nullopt;
  if (promised_ && promised_->number == number) return promised_->from_clock;
  // Nodes that join with the newest change make at least one step before the next change. Nothing
  // changes at clock 0.
  uint64_t from = std::max(close(open_until()), views_.newest_clock()) + margin;
  from = std::max<uint64_t>(from, 1);
  // A rank may have advanced meanwhile.
  for (uint64_t told = close(from); told > from; told = close(from)) from = told + margin;
  promised_ = {.number = number, .from_clock = from};
  return from;
}

absl::Status ViewGate::Take(const proto::ViewChange& change, uint64_t told) {
  if (change.number() <= std::max(heard_, views_.number())) return absl::OkStatus();
  const bool is_given_up = change.joined().empty() && change.left().empty();
  const uint64_t ahead = promised_ ? promised_->from_clock : told;
  if (!is_given_up && change.at_clock() < ahead) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "change %d of the job's nodes is at clock %d, but this node has kept those from %d on free",
        change.number(), change.at_clock(), ahead));
  }
  if (absl::Status added = views_.Add(change); !added.ok()) return added;
  heard_ = change.number();
  if (promised_ && promised_->number <= heard_) promised_.reset();
  return absl::OkStatus();
}

}  // namespace strata::worker
