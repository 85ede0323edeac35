#include "worker/exchange/chunk_reduction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/slices.h"
#include "worker/exchange/line.h"

namespace strata::worker {
namespace {

using Kind = ReduceStep::Kind;
using wire::Op;

bool IsTake(const ReduceStep& step) {
  return step.kind == Kind::kAddSum || step.kind == Kind::kTakeWeights;
}

}  // namespace

ChunkReduction::ChunkReduction(const ReductionRules* rules, const proto::Layout& layout,
                               const ChunkMap& map, ChunkId chunk)
    : rules_(rules),
      chunk_(chunk),
      elements_(map.ElementsOf(chunk)),
      own_begin_(StartOf(rules->plan.Own().begin)),
      own_end_(StartOf(rules->plan.Own().end)),
      weights_(*rules->kernels, *rules->pool, rules->update, own_end_ - own_begin_,
               RunsOf(layout, map.OffsetOf(chunk) + own_begin_, own_end_ - own_begin_)),
      sums_(rules->pool),
      gathered_(rules->pool) {}

uint32_t ChunkReduction::StartOf(uint32_t slice) const {
  return SliceStart(elements_, rules_->plan.slices, slice);
}

void ChunkReduction::Seed(const Bytes& first_weights) {
  const uint32_t count = own_end_ - own_begin_;
  if (count == 0) return;
  weights_.Seed(first_weights.Part(own_begin_ * sizeof(float), count * sizeof(float)), 0);
}

absl::Status ChunkReduction::Begin(Bytes sum, uint32_t samples, ReductionActions* actions) {
  begun_ = true;
  sums_.Add(0, std::move(sum));
  samples_.assign(rules_->plan.slices, samples);
  return Advance(actions);
}

absl::Status ChunkReduction::OnFrame(uint32_t peer, const wire::Frame& frame,
                                     ReductionActions* actions) {
  const uint64_t clock = frame.header.clock;
  std::deque<wire::Frame>& inbox = inbox_[peer];
  const size_t frames_max = 2 * rules_->plan.steps.size();
  if (clock < clock_ || clock > clock_ + 1 || inbox.size() >= frames_max) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s, but clock %d is due", wire::Describe(frame.header), clock_));
  }
  inbox.push_back(frame);
  return begun_ ? Advance(actions) : absl::OkStatus();
}

absl::Status ChunkReduction::Advance(ReductionActions* actions) {
  while (next_ < rules_->plan.steps.size()) {
    absl::StatusOr<bool> done = Do(rules_->plan.steps[next_], actions);
    if (!done.ok()) return done.status();
    if (!*done) return absl::OkStatus();
    ++next_;
  }
  next_ = 0;
  begun_ = false;
  sums_.Clear();
  gathered_.Clear();
  ++clock_;
  actions->landed = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> ChunkReduction::Do(const ReduceStep& step, ReductionActions* actions) {
  if (step.kind == Kind::kUpdate) {
    Update(actions);
    return true;
  }
  if (!IsTake(step)) {
    Send(step, actions);
    return true;
  }
  std::deque<wire::Frame>& inbox = inbox_[step.peer];
  if (inbox.empty()) return false;
  const wire::Frame frame = std::move(inbox.front());
  inbox.pop_front();
  if (absl::Status status = Take(step, frame, actions); !status.ok()) return status;
  return true;
}

void ChunkReduction::Send(const ReduceStep& step, ReductionActions* actions) {
  const bool sum = step.kind == Kind::kSendSum;
  ReductionActions::Send send;
  send.peer = step.peer;
  send.payload =
      (sum ? sums_ : gathered_).View(StartOf(step.slices.begin), StartOf(step.slices.end));
  send.header.op = sum ? Op::kReduce : Op::kGather;
  send.header.chunk = chunk_.value();
  send.header.clock = clock_;
  send.header.slice = step.slices.begin;
  send.header.element_count = static_cast<uint32_t>(send.payload.float_count());
  if (sum) send.header.sample_count = samples_[step.slices.begin];
  send.header.payload_checksum = ChecksumOf(send.payload);
  actions->sends.push_back(std::move(send));
}

absl::Status ChunkReduction::CheckDue(const ReduceStep& step, const wire::Header& header) const {
  const Op op = step.kind == Kind::kAddSum ? Op::kReduce : Op::kGather;
  const uint32_t elements = StartOf(step.slices.end) - StartOf(step.slices.begin);
  if (header.op == op && header.clock == clock_ && header.slice == step.slices.begin &&
      header.element_count == elements) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s, but %s of slice %d with %d elements of clock %d is due", wire::Describe(header),
      wire::ToString(op), step.slices.begin, elements, clock_));
}

absl::Status ChunkReduction::Take(const ReduceStep& step, const wire::Frame& frame,
                                  ReductionActions* actions) {
  if (absl::Status status = CheckDue(step, frame.header); !status.ok()) return status;
  if (step.kind == Kind::kAddSum) {
    Add(step, frame);
  } else {
    Deliver(step, frame.payload, actions);
  }
  return absl::OkStatus();
}

// What came stands for nodes before this one in the order of addition, or after it: a sum of two
// has the same bits either way.
void ChunkReduction::Add(const ReduceStep& step, const wire::Frame& frame) {
  for (uint32_t k = step.slices.begin; k < step.slices.end; ++k) {
    samples_[k] += frame.header.sample_count;
  }
  const uint32_t begin = StartOf(step.slices.begin), count = frame.header.element_count;
  if (count == 0) return;
  const Bytes own = sums_.View(begin, begin + count);
  const std::shared_ptr<float> sum = rules_->pool->AllocateFloats(count);
  const float* const inputs[] = {frame.payload.floats(), own.floats()};
  rules_->kernels->sum(absl::MakeConstSpan(inputs), sum.get(), count);
  sums_.Add(begin, AsBytes(sum, count));
}

void ChunkReduction::Update(ReductionActions* actions) {
  const SliceRange own = rules_->plan.Own();
  if (own_begin_ < own_end_) {
    const uint32_t samples = samples_[own.begin];
    if (samples == 0) {
      weights_.Skip();
    } else {
      weights_.Apply(sums_.View(own_begin_, own_end_), static_cast<float>(1.0 / samples), samples,
                     1.0);
    }
  }
  Deliver({Kind::kUpdate, 0, own}, weights_.weights(), actions);
}

void ChunkReduction::Deliver(const ReduceStep& step, Bytes weights, ReductionActions* actions) {
  const uint32_t begin = StartOf(step.slices.begin);
  gathered_.Add(begin, weights);
  actions->deliveries.push_back({begin, std::move(weights)});
}

}  // namespace strata::worker
