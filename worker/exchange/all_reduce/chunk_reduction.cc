#include "worker/exchange/all_reduce/chunk_reduction.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/job/all_reduce.h"
#include "common/require.h"
#include "common/transport/link.h"
#include "numerics/encoder.h"

namespace strata::worker {
namespace {

using Kind = ReduceStep::Kind;
using wire::Op;

bool IsTake(const ReduceStep& step) {
  return step.kind == Kind::kAddSum || step.kind == Kind::kTakeWeights;
}

}  // namespace

ReductionRules ReductionRules::Of(const proto::JobRecord& record, const kernels::Kernels& kernels,
                                  BufferPool* pool, uint32_t position, TraceLog* trace) {
  const auto nodes = static_cast<uint32_t>(record.view().nodes_size());
  STRATA_REQUIRE(position < nodes);
  return {.kernels = &kernels,
          .pool = pool,
          .plan = MakeReducePlan(record.ring().algorithm(), nodes, position),
          .update = numerics::MakeUpdateRule(record.job(), record.samples_per_epoch(),
                                             record.says_rates()),
          .compression =
              numerics::MakeCompression(record.job().push(), kernels::Feedback::kNone).compression,
          .trace = trace};
}

ChunkReduction::ChunkReduction(const ReductionRules* rules, const proto::Layout& layout,
                               const ChunkMap& map, ChunkId chunk)
    : rules_(rules),
      chunk_(chunk),
      offset_(map.OffsetOf(chunk)),
      elements_(map.ElementsOf(chunk)),
      own_begin_(SliceBegin(rules->plan.Own().begin)),
      own_end_(SliceBegin(rules->plan.Own().end)),
      weights_(*rules->kernels, *rules->pool, rules->update, own_end_ - own_begin_,
               OptimizerRuns(layout, map.OffsetOf(chunk) + own_begin_, own_end_ - own_begin_)),
      sums_(rules->pool),
      gathered_(rules->pool) {
  STRATA_REQUIRE(map.elements() == layout.elements());
}

uint32_t ChunkReduction::SliceBegin(uint32_t slice) const {
  return SliceStart(elements_, rules_->plan.slices, slice);
}

void ChunkReduction::Seed(const Bytes& first_weights) {
  const uint32_t count = own_end_ - own_begin_;
  if (count == 0) return;
  const Bytes own = first_weights.Part(own_begin_ * sizeof(float), count * sizeof(float));
  weights_.Seed(own, 0);
  // The weights are the ranks' own: if they are not finite, the first update reports it.
  if (encodes()) FollowFrom(own).IgnoreError();
}

absl::Status ChunkReduction::FollowFrom(const Bytes& own) {
  // The rules are those of a valid job.
  copy_ = *numerics::Encoder::Create(
      {.compression = rules_->compression, .feedback = kernels::Feedback::kFollow},
      own.float_count(), *rules_->kernels);
  return copy_->Restore({absl::MakeConstSpan(own.floats(), own.float_count())});
}

std::optional<ChunkImage> ChunkReduction::Image() const {
  if (own_begin_ == own_end_) return std::nullopt;
  STRATA_REQUIRE(weights_.seeded() && !begun_);
  ChunkImage image = {.begin = offset_ + own_begin_, .clock = clock_, .weights = weights_.Image()};
  if (copy_ == nullptr) return image;
  const absl::Span<const float> state = copy_->State(0);
  const auto copy = CopyFloats(CopyReason::kCut, *rules_->pool, state.data(), state.size());
  image.copy = AsBytes(copy, state.size());
  return image;
}

absl::Status ChunkReduction::Restore(const std::optional<ChunkImage>& image, uint64_t clock) {
  const uint32_t count = own_end_ - own_begin_;
  if (image.has_value() != (count > 0)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("chunk %d: %d elements are this node's, %s", chunk_.value(), count,
                        image ? "but there is an image of some" : "but there is no image of them"));
  }
  clock_ = clock;
  if (!image) return absl::OkStatus();
  if (image->begin != offset_ + own_begin_ || image->clock != clock) {
    return absl::InvalidArgumentError(
        absl::StrFormat("an image of the elements from %d on at clock %d, not from %d at clock %d",
                        image->begin, image->clock, offset_ + own_begin_, clock));
  }
  if (image->copy.empty() == encodes() || (encodes() && image->copy.float_count() != count)) {
    return absl::InvalidArgumentError("an image of another push.codec");
  }
  if (absl::Status status = weights_.Restore(image->weights); !status.ok()) return status;
  return encodes() ? FollowFrom(image->copy) : absl::OkStatus();
}

absl::Status ChunkReduction::Begin(Bytes sum, const StepFacts& step, ReductionActions* actions) {
  STRATA_REQUIRE(!begun_ && (own_begin_ == own_end_ || weights_.seeded()));
  begun_ = true;
  sums_.Add(0, std::move(sum));
  samples_.assign(rules_->plan.slices, step.samples);
  rate_ = step.rate;
  return Advance(actions);
}

absl::Status ChunkReduction::OnFrame(uint32_t peer, const wire::Frame& frame,
                                     ReductionActions* actions) {
  const uint64_t clock = frame.header.clock;
  std::deque<wire::Frame>& inbox = inbox_[peer];
  const size_t frames_max = 2 * (rules_->plan.steps.size() + rules_->plan.slices);
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
  payloads_.clear();
  ++clock_;
  actions->landed = true;
  return absl::OkStatus();
}

uint32_t ChunkReduction::PartCount(const ReduceStep& step) const {
  const bool weights = step.kind == Kind::kSendWeights || step.kind == Kind::kTakeWeights;
  return encodes() && weights ? step.slices.end - step.slices.begin : 1;
}

ReduceStep ChunkReduction::Part(const ReduceStep& step, uint32_t part) const {
  if (PartCount(step) == 1) return step;
  const uint32_t slice = step.slices.begin + part;
  return {step.kind, step.peer, {slice, slice + 1}};
}

absl::StatusOr<bool> ChunkReduction::Do(const ReduceStep& step, ReductionActions* actions) {
  if (step.kind == Kind::kUpdate) {
    if (absl::Status status = Update(actions); !status.ok()) return status;
    return true;
  }
  for (; taken_ < PartCount(step); ++taken_) {
    const ReduceStep part = Part(step, taken_);
    if (!IsTake(step)) {
      if (absl::Status status = Send(part, actions); !status.ok()) return status;
      continue;
    }
    std::deque<wire::Frame>& inbox = inbox_[step.peer];
    if (inbox.empty()) return false;
    const wire::Frame frame = std::move(inbox.front());
    inbox.pop_front();
    if (absl::Status status = Take(part, frame, actions); !status.ok()) return status;
  }
  taken_ = 0;
  return true;
}

absl::StatusOr<Bytes> ChunkReduction::Encoded(numerics::Encoder* encoder,
                                              const Bytes& floats) const {
  const size_t bytes = encoder->encoded_bytes_max();
  const std::shared_ptr<std::byte> payload = rules_->pool->AllocateBytes(bytes);
  numerics::EncoderScratch unused;
  const auto encoded = encoder->Encode(absl::MakeConstSpan(floats.floats(), floats.float_count()),
                                       &unused, absl::MakeSpan(payload.get(), bytes));
  if (!encoded.ok()) return encoded.status();
  return Bytes(payload, payload.get(), bytes);
}

absl::Status ChunkReduction::Send(const ReduceStep& step, ReductionActions* actions) {
  const bool sum = step.kind == Kind::kSendSum;
  const uint32_t begin = SliceBegin(step.slices.begin), end = SliceBegin(step.slices.end);
  ReductionActions::Send send;
  send.peer = step.peer;
  if (encodes() && !sum) {
    send.payload = payloads_[step.slices.begin];
  } else {
    send.payload = (sum ? sums_ : gathered_).View(begin, end);
  }
  if (encodes() && sum && begin < end) {
    const auto encoder = numerics::Encoder::Create(
        {.compression = rules_->compression, .feedback = kernels::Feedback::kNone}, end - begin,
        *rules_->kernels);
    if (!encoder.ok()) return encoder.status();
    absl::StatusOr<Bytes> payload = Encoded(encoder->get(), send.payload);
    if (!payload.ok()) return payload.status();
    send.payload = *std::move(payload);
  }
  send.header.op = sum ? Op::kReduce : Op::kGather;
  send.header.codec = numerics::WireCodec(rules_->compression);
  send.header.chunk = chunk_.value();
  send.header.clock = clock_;
  send.header.slice = step.slices.begin;
  send.header.element_count = end - begin;
  if (sum) {
    send.header.sample_count = samples_[step.slices.begin];
    send.header.rate = rate_;
  }
  actions->sends.push_back(std::move(send));
  return absl::OkStatus();
}

absl::Status ChunkReduction::CheckDue(const ReduceStep& step, const wire::Header& header) const {
  const Op op = step.kind == Kind::kAddSum ? Op::kReduce : Op::kGather;
  const uint32_t elements = SliceBegin(step.slices.end) - SliceBegin(step.slices.begin);
  if (header.op == op && header.clock == clock_ && header.slice == step.slices.begin &&
      header.element_count == elements &&
      header.codec == numerics::WireCodec(rules_->compression)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s as %s, but %s of slice %d with %d elements of clock %d as %s is due",
      wire::Describe(header), wire::ToString(header.codec), wire::ToString(op), step.slices.begin,
      elements, clock_, wire::ToString(numerics::WireCodec(rules_->compression))));
}

absl::Status ChunkReduction::Take(const ReduceStep& step, const wire::Frame& frame,
                                  ReductionActions* actions) {
  if (absl::Status status = CheckDue(step, frame.header); !status.ok()) return status;
  if (step.kind == Kind::kAddSum) return Add(step, frame);
  return Deliver(step, frame.payload, actions);
}

absl::StatusOr<numerics::CheckedPayload> ChunkReduction::Checked(const Bytes& payload,
                                                                 uint32_t elements) const {
  return numerics::CheckedPayload::Check(*rules_->kernels, numerics::WireCodec(rules_->compression),
                                         elements,
                                         absl::MakeConstSpan(payload.data(), payload.size()));
}

// The frame's nodes come before this one in the order of addition, or after it: a sum of two has
// the same bits either way.
absl::Status ChunkReduction::Add(const ReduceStep& step, const wire::Frame& frame) {
  if (frame.header.rate != rate_) {
    return absl::InvalidArgumentError(
        absl::StrFormat("node %d says learning rate %.9g at clock %d of chunk %d, this one %.9g",
                        frame.header.node, frame.header.rate, clock_, chunk_.value(), rate_));
  }
  for (uint32_t k = step.slices.begin; k < step.slices.end; ++k) {
    samples_[k] += frame.header.sample_count;
  }
  const uint32_t begin = SliceBegin(step.slices.begin), count = frame.header.element_count;
  if (count == 0) return absl::OkStatus();
  const Bytes own = sums_.View(begin, begin + count);
  const std::shared_ptr<float> sum = rules_->pool->AllocateFloats(count);
  if (encodes()) {
    const absl::StatusOr<numerics::CheckedPayload> payload = Checked(frame.payload, count);
    if (!payload.ok()) return payload.status();
    payload->AddTo(own.floats(), sum.get());
  } else {
    const float* const inputs[] = {frame.payload.floats(), own.floats()};
    rules_->kernels->sum(absl::MakeConstSpan(inputs), sum.get(), count);
  }
  sums_.Add(begin, AsBytes(sum, count));
  return absl::OkStatus();
}

absl::Status ChunkReduction::Update(ReductionActions* actions) {
  TraceLog* const trace = rules_->trace;
  TraceSpan span(trace, proto::TraceEvent::APPLY, chunk_,
                 trace != nullptr ? trace->StepOf(clock_) : 0);
  const SliceRange own = rules_->plan.Own();
  if (own_begin_ < own_end_) {
    const uint32_t samples = samples_[own.begin];
    if (samples == 0) {
      weights_.Skip();
    } else {
      weights_.Apply(sums_.View(own_begin_, own_end_), static_cast<float>(1.0 / samples), samples,
                     {.said = rate_});
    }
  }
  Bytes weights = weights_.weights();
  if (copy_ != nullptr) {
    absl::StatusOr<Bytes> payload = Encoded(copy_.get(), weights);
    if (!payload.ok()) return payload.status();
    weights = *std::move(payload);
  }
  return Deliver({Kind::kUpdate, 0, own}, std::move(weights), actions);
}

absl::Status ChunkReduction::Deliver(const ReduceStep& step, Bytes weights,
                                     ReductionActions* actions) {
  const uint32_t begin = SliceBegin(step.slices.begin), end = SliceBegin(step.slices.end);
  if (!encodes()) {
    gathered_.Add(begin, weights);
    actions->deliveries.push_back({begin, std::move(weights), std::nullopt});
    return absl::OkStatus();
  }
  const absl::StatusOr<numerics::CheckedPayload> delta = Checked(weights, end - begin);
  if (!delta.ok()) return delta.status();
  payloads_[step.slices.begin] = weights;
  actions->deliveries.push_back({begin, std::move(weights), *delta});
  return absl::OkStatus();
}

Bytes SlicePieces::View(uint32_t begin, uint32_t end) const {
  // The newest piece that has any of the elements decides whether one piece has them all.
  const auto newest = std::find_if(pieces_.rbegin(), pieces_.rend(), [&](const Piece& piece) {
    return piece.begin < end && begin < piece.end();
  });
  if (begin == end) return Bytes();
  STRATA_REQUIRE(newest != pieces_.rend());
  if (newest->begin <= begin && end <= newest->end()) {
    return newest->floats.Part((begin - newest->begin) * sizeof(float),
                               (end - begin) * sizeof(float));
  }
  uint32_t known = 0;
  const std::shared_ptr<float> whole = pool_->AllocateFloats(end - begin);
  for (const Piece& piece : pieces_) {
    const uint32_t from = std::max(begin, piece.begin), to = std::min(end, piece.end());
    if (from >= to) continue;
    known = std::max(known, to);
    CopyBytes(CopyReason::kJoined, whole.get() + (from - begin),
              piece.floats.floats() + (from - piece.begin), (to - from) * sizeof(float));
  }
  STRATA_REQUIRE(known == end);
  return AsBytes(whole, end - begin);
}

}  // namespace strata::worker
