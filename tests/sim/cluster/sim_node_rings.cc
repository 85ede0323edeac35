// The part of SimNode that sees to rings that stop and form, as NodeTraining does.
#include <utility>

#include "tests/sim/check/ring_checker.h"
#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/sim_node.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

using worker::ViewGate;

void SimNode::StopRing(uint32_t number) {
  ring_words_.emplace_back().mutable_stop_ring()->set_number(number);
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::FormRing(const proto::FormRing& forming) {
  *ring_words_.emplace_back().mutable_form_ring() = forming;
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::TakeRings() {
  for (const proto::AgentMessage& word : std::exchange(ring_words_, {})) {
    if (stopped_) return;
    if (word.has_stop_ring()) TakeStop(word.stop_ring().number());
    if (word.has_form_ring()) TakeForming(word.form_ring());
  }
}

void SimNode::TakeStop(uint32_t number) {
  proto::RingStopped answer;
  answer.set_node(options_.node);
  answer.set_number(number);
  absl::StatusOr<StoppedRing> stopped =
      absl::FailedPreconditionError("its first weights are not there yet");
  if (training_) {
    const std::optional<uint64_t> from = gate_.Promise(
        number, [this](uint64_t) { return Close(); }, ViewGate::kNoMargin);
    if (!from) return;
    answer.set_from_clock(*from);
    stopped = exchange_->StopRing(number);
  }
  if (stopped.ok()) {
    answer.set_clock(stopped->clock);
    answer.set_is_over(stopped->is_over);
    world_->ring_checker(job_)->OnRingStopped(answer);
    world_->views().OnRingStopped(job_, answer);
  } else if (absl::IsFailedPrecondition(stopped.status())) {
    answer.set_error(std::string(stopped.status().message()));
  } else {
    Goes(stopped.status());
    return;
  }
  options_.on_ring_stopped(answer);
  world_->operators().OnRing(job_);
}

void SimNode::TakeForming(const proto::FormRing& forming) {
  const proto::ViewChange& change = forming.change();
  if (change.number() <= gate_.views().number()) return;
  world_->ring_checker(job_)->OnRingTaken(options_.node, forming);
  if (!Goes(exchange_->FormRing(forming))) return;
  TakeView(change);
  world_->operators().OnRing(job_);
}

}  // namespace strata::sim
