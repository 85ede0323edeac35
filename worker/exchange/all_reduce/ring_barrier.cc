#include "worker/exchange/all_reduce/ring_barrier.h"

#include <memory>
#include <utility>

#include "common/job/arena.h"
#include "common/require.h"
#include "proto/record.pb.h"

namespace strata::worker {
namespace {

ReductionRules WithoutTrace(ReductionRules rules) {
  rules.trace = nullptr;
  return rules;
}

// An arena whose chunk of that number is one element.
proto::Layout LayoutUpTo(ChunkId chunk) {
  proto::Layout layout;
  layout.set_elements(uint64_t{chunk.value()} + 1);
  proto::Segment* const segment = layout.add_segments();
  segment->add_shape(layout.elements());
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return layout;
}

Bytes Zero() {
  const auto zero = std::make_shared<float>(0.0f);
  return AsBytes(zero, 1);
}

}  // namespace

RingBarrier::RingBarrier(const ReductionRules& rules, ChunkId chunk)
    : chunk_(chunk),
      rules_(WithoutTrace(rules)),
      word_(&rules_, LayoutUpTo(chunk), ChunkMap(uint64_t{chunk.value()} + 1, 1), chunk) {
  word_.Seed(Zero());
}

void RingBarrier::StartAt(uint64_t clock) {
  if (!std::exchange(is_started_, true)) word_.StartAt(clock);
}

absl::Status RingBarrier::Enter(uint64_t clocks, ReductionActions* actions) {
  STRATA_REQUIRE(!is_entered_);
  StartAt(clocks);
  is_entered_ = true;
  const absl::Status status = word_.Begin(Zero(), {}, actions);
  is_passed_ = actions->landed;
  return status;
}

absl::Status RingBarrier::OnFrame(uint32_t peer, const wire::Frame& frame,
                                  ReductionActions* actions) {
  StartAt(frame.header.clock);
  const absl::Status status = word_.OnFrame(peer, frame, actions);
  is_passed_ = is_passed_ || actions->landed;
  return status;
}

}  // namespace strata::worker
