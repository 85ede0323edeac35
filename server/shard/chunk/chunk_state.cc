#include "server/shard/chunk/chunk_state.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/require.h"
#include "numerics/checked_payload.h"

namespace strata::server {

ChunkState::ChunkState(const kernels::Kernels& kernels, BufferPool& pool,
                       numerics::EncoderScratch* scratch, const ChunkRules& rules,
                       uint32_t elements, std::vector<OptimizerRun> runs)
    : kernels_(kernels),
      rules_(rules),
      weights_(kernels, pool, rules.update, elements, std::move(runs)),
      copies_(rules.answers, kernels, pool, scratch, rules.nodes),
      nodes_(rules.nodes),
      cuts_(rules.cut_every, weights_),
      mode_(rules.mode->CreateForChunk({kernels, pool, weights_, nodes_, cuts_, sums_})) {
  if (rules.keeps_previous) weights_.KeepPrevious();
  for (const size_t node : rules.absent) nodes_[node].retired = true;
}

void ChunkState::Seed(const Bytes& weights, uint64_t checksum) {
  STRATA_REQUIRE(weights.float_count() == weights_.elements());
  copies_.Seed(weights, 0);
  weights_.Seed(weights, checksum);
  if (rules_.takes_first_weights) first_ = weights_.weights();
  mode_->OnSeed();
}

absl::Status ChunkState::Restore(const ChunkImage& image) {
  for (const Bytes* vector : {&image.copy, &image.mean_square}) {
    if (vector->empty() || vector->float_count() == weights_.elements()) continue;
    return absl::InvalidArgumentError(absl::StrFormat("vectors of %d elements, the chunk has %d",
                                                      vector->float_count(), weights_.elements()));
  }
  if (absl::Status status = weights_.Restore(image.weights); !status.ok()) return status;
  copies_.Seed(image.copy.empty() ? weights_.weights() : image.copy, weights_.version());
  const bool same_nodes = image.applied.size() == nodes_.size();
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].joined_at > 0) continue;  // it joins later
    nodes_[node].received = same_nodes ? image.applied[node] : image.clock;
  }
  cuts_.GoOnFrom(image.clock);
  mode_->OnSeed();
  mode_->RestoreMeanSquare(image.mean_square);
  return absl::OkStatus();
}

std::vector<ChunkImage> ChunkState::TakeImages() {
  std::vector<ChunkImage> images = cuts_.Take();
  if (images.empty()) return images;
  const Bytes mean_square = mode_->MeanSquare();
  const bool shares_copy = copies_.encodes() && rules_.answers.shared;
  for (ChunkImage& image : images) {
    if (shares_copy) image.copy = copies_.WholeCopy(0).payload;
    image.mean_square = mean_square;
  }
  return images;
}

void ChunkState::CutIfDue() {
  if (rules_.cut_every > 0 && rules_.mode->applies_on_arrival())
    cuts_.OnClockOf(nodes_.Gate(), nodes_);
}

WeightVersion ChunkState::WeightsToBeginWith(size_t node) const {
  STRATA_REQUIRE(weights_.seeded());
  if (IsNewWithoutCopy(node)) return {weights_.version(), weights_.weights()};
  if (copies_.encodes()) {
    const NodeCopies::Answer copy = copies_.WholeCopy(node);
    return {copy.version, copy.payload};
  }
  if (const WeightVersion* given = mode_->GivenTo(node)) return *given;
  if (!first_.empty()) return {0, first_};
  return {weights_.version(), weights_.weights()};
}

PulledWeights ChunkState::WeightsOf(size_t node, uint64_t clock) const {
  using State = PulledWeights::State;
  STRATA_REQUIRE(weights_.seeded());
  if (nodes_[node].received < clock) return {};
  // As always, its next push may come once the last one is answered.
  if (nodes_[node].received == clock && nodes_[node].waiting) return {State::kNotYet, {}, 0};
  const bool begins = nodes_.IsNew(node) && nodes_[node].received == clock;
  if (begins && !mode_->MayAnswer(node, nodes_.Gate())) return {State::kNotYet, {}, 0};
  const bool is_exact = rules_.mode->answers_alike();
  // Clocks that have been applied. Versions may have another origin.
  const uint64_t applied = is_exact ? nodes_.MinClock() : clock;
  if (applied > clock + 1) return {};
  const bool is_of_now = applied <= clock;
  if (copies_.encodes() && !IsNewWithoutCopy(node)) {
    NodeCopies::Answer copy = is_of_now ? copies_.WholeCopy(node) : copies_.previous();
    if (copy.payload.empty()) return {};
    return {State::kHere, {copy.version, std::move(copy.payload)}, copy.base};
  }
  if (!is_exact) return {State::kHere, WeightsToBeginWith(node), 0};
  if (is_of_now) return {State::kHere, {weights_.version(), weights_.weights()}, 0};
  if (weights_.previous().empty()) return {};
  return {State::kHere, {weights_.version() - 1, weights_.previous()}, 0};
}

PushResult ChunkState::OnPush(Push push, std::vector<DueAnswer>* due) {
  STRATA_REQUIRE(weights_.seeded());
  NodeProgress& node = nodes_[push.node];
  if (push.clock < node.received) return OnDuplicate(push, due);
  if (PushResult refusal = Check(push); refusal.error != wire::ErrorCode::kNone) return refusal;
  Addend sum;
  PushResult refusal = CheckSum(push, &sum);
  if (refusal.error != wire::ErrorCode::kNone) return refusal;
  ++node.received;
  node.waiting = true;
  node.incarnation = push.incarnation;
  node.checksum = push.checksum;
  node.samples = push.samples;
  node.rate = push.rate;
  node.versions_behind =
      static_cast<uint32_t>(std::min<uint64_t>(weights_.version() - push.base_version, UINT32_MAX));
  if (!first_.empty() && nodes_.Gate() > 0) first_ = Bytes();
  PushResult result = mode_->Take(push, std::move(sum), due);
  CutIfDue();
  CollectDue(due);
  return result;
}

absl::Status ChunkState::Follow(const ClockSum& clock, std::vector<DueAnswer>* due) {
  STRATA_REQUIRE(weights_.seeded());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeProgress& node = nodes_[i];
    if (node.retired || node.received == clock.clock || node.joined_at > clock.clock) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "clock %d, where node %d is to push number %d", clock.clock, i, node.received));
  }
  if (!clock.sum.empty() && clock.sum.float_count() != weights_.elements()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d elements, not %d", clock.sum.float_count(), weights_.elements()));
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const uint64_t joined_at = nodes_[i].joined_at;
    if (nodes_[i].retired || joined_at > clock.clock) continue;
    // The push itself is unknown: a process that repeats it is answered in any case.
    nodes_[i] = {.received = clock.clock + 1, .waiting = true, .joined_at = joined_at};
  }
  first_ = Bytes();
  mode_->Follow(clock);
  CollectDue(due);
  return absl::OkStatus();
}

PushResult ChunkState::OnDuplicate(const Push& push, std::vector<DueAnswer>* due) {
  const NodeProgress& node = nodes_[push.node];
  const bool is_last = push.clock + 1 == node.received;
  const bool same_process = push.incarnation == node.incarnation;
  const bool differs = node.HasOtherContent(push.checksum, push.samples) || push.rate != node.rate;
  if (is_last && same_process && differs) return RefuseOtherContent();
  if (is_last && !same_process && mode_->StopWaiting(push.node)) {
    CollectDue(due);
    return {.duplicate = true};
  }
  // A push before the last was answered, or the process would not have pushed again; but a new
  // process that starts over needs its answer.
  if ((is_last && !node.waiting) || (!is_last && !same_process)) {
    due->push_back({.node = push.node, .clock = push.clock, .staleness = 0});
    if (is_last) due->back() = AnswerTo(push.node, nodes_.Gate());
    due->back().again = true;
  }
  return {.duplicate = true, .unchanged = true};
}

PushResult ChunkState::Check(const Push& push) const {
  PushResult progress =
      CheckProgress(nodes_[push.node], push.clock, push.base_version, weights_.version());
  if (progress.error != wire::ErrorCode::kNone) return progress;
  if (push.rate != 0 && !rules_.says_rates) {
    return RefusePush(
        wire::ErrorCode::kMalformed,
        absl::StrFormat("learning rate %g, but the job takes rates from schedule", push.rate));
  }
  if (PushResult refusal = mode_->Check(push); refusal.error != wire::ErrorCode::kNone) {
    return refusal;
  }
  return {};
}

PushResult ChunkState::CheckSum(const Push& push, Addend* addend) const {
  const Bytes& sum = push.sum;
  if (sum.empty()) return {};
  const bool is_encoded = push.codec != wire::Codec::kNone;
  if (!is_encoded && rules_.mode->answers_alike()) {
    *addend = Addend(sum);
    addend->unchecked = true;
    return {};
  }
  const absl::StatusOr<numerics::CheckedPayload> checked = numerics::CheckedPayload::Check(
      kernels_, push.codec, weights_.elements(), absl::MakeConstSpan(sum.data(), sum.size()));
  if (checked.ok()) {
    *addend = is_encoded ? Addend(sum, *checked) : Addend(sum);
    return {};
  }
  if (!is_encoded) return RefusePush(wire::ErrorCode::kNotFinite, kNotFiniteText);
  return RefusePush(wire::ErrorCode::kMalformed, std::string(checked.status().message()));
}

void ChunkState::OnTime(absl::Time now, std::vector<DueAnswer>* due) {
  if (now < mode_->deadline()) return;
  mode_->OnTime(now);
  CollectDue(due);
}

void ChunkState::OnRetire(size_t node, absl::Time now, std::vector<DueAnswer>* due) {
  nodes_[node].retired = true;
  mode_->OnRetire(now, due);
  CutIfDue();
  CollectDue(due);
}

void ChunkState::OnCut(size_t node, uint64_t clock, std::vector<DueAnswer>* due) {
  nodes_[node].cut_waiting = true;
  nodes_[node].cut_clock = clock;
  CollectDue(due);
}

void ChunkState::CollectDue(std::vector<DueAnswer>* due) {
  const uint64_t gate = nodes_.Gate();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeProgress& node = nodes_[i];
    if (node.waiting && mode_->MayAnswer(i, gate)) {
      if (IsNewWithoutCopy(i)) copies_.StartOver(i);
      node.waiting = false;
      due->push_back(AnswerTo(i, gate));
      mode_->OnAnswered(i);
    }
    if (node.cut_waiting && gate == kClockInfinity) {
      node.cut_waiting = false;
      due->push_back({.op = wire::Op::kCutAnswer, .node = i, .clock = node.cut_clock});
    }
  }
}

DueAnswer ChunkState::AnswerTo(size_t node, uint64_t gate) const {
  return {.node = node,
          .clock = nodes_[node].received - 1,
          .staleness = mode_->StalenessOf(node, gate)};
}

WeightVersion ChunkState::WeightsFor(const DueAnswer& answer) const {
  if (answer.again && answer.op == wire::Op::kAnswer) {
    if (const WeightVersion* given = mode_->GivenTo(answer.node)) return *given;
  }
  return {weights_.version(), weights_.weights()};
}

namespace {

proto::CopiedNode Copied(const NodeProgress& node) {
  proto::CopiedNode copied;
  copied.set_received(node.received);
  copied.set_waiting(node.waiting);
  copied.set_retired(node.retired);
  copied.set_incarnation(node.incarnation);
  copied.set_checksum(node.checksum);
  copied.set_samples(node.samples);
  copied.set_rate(node.rate);
  copied.set_versions_behind(node.versions_behind);
  copied.set_joined_at(node.joined_at);
  return copied;
}

NodeProgress Progress(const proto::CopiedNode& node) {
  return {.received = node.received(),
          .waiting = node.waiting(),
          .retired = node.retired(),
          .incarnation = node.incarnation(),
          .checksum = node.checksum(),
          .samples = node.samples(),
          .rate = node.rate(),
          .versions_behind = node.versions_behind(),
          .joined_at = node.joined_at()};
}

}  // namespace

ChunkCopy ChunkState::Copy(bool whole_clocks) {
  ChunkCopy copy;
  proto::ChunkCopy& head = copy.head;
  const uint64_t gate = nodes_.Gate();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeProgress node = nodes_[i];
    // Its push of an incomplete clock is not in the copy.
    if (whole_clocks && !node.retired && node.received > gate) {
      node = {.received = std::max(gate, node.joined_at), .joined_at = node.joined_at};
    }
    *head.add_nodes() = Copied(node);
  }
  if (!weights_.seeded()) return copy;
  const WeightImage weights = weights_.Image();
  head.set_seeded(true);
  head.set_weights(copy.Add(weights.weights));
  head.set_previous(copy.Add(weights_.previous()));
  for (const Bytes& vector : weights.state) head.add_state(copy.Add(vector));
  head.set_missed(copy.Add(weights.missed));
  head.set_version(weights.version);
  head.set_updates(weights.updates);
  head.set_samples(weights.samples);
  head.set_seed_checksum(weights_.seed_checksum());
  head.set_first(copy.Add(first_));
  head.set_last_cut(cuts_.last());
  copies_.AddTo(&copy);
  if (!whole_clocks) mode_->AddTo(&copy);
  return copy;
}

absl::Status ChunkState::TakeCopy(const ChunkCopy& copy) {
  const proto::ChunkCopy& head = copy.head;
  if (static_cast<size_t>(head.nodes_size()) != nodes_.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a copy for %d nodes, of %d", head.nodes_size(), nodes_.size()));
  }
  for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i] = Progress(head.nodes(static_cast<int>(i)));
  if (!head.seeded()) return absl::OkStatus();
  ChunkCopyReader reader(copy, kernels_, weights_.elements());
  WeightImage image = {
      .version = head.version(), .updates = head.updates(), .samples = head.samples()};
  image.weights = reader.SomeFloats(head.weights(), "weights");
  for (const uint32_t vector : head.state()) {
    image.state.push_back(reader.SomeFloats(vector, "optimizer state"));
  }
  image.missed = reader.Floats(head.missed(), "missed updates");
  if (!reader.ok()) return reader.status();
  if (absl::Status fits = weights_.Restore(image, head.seed_checksum()); !fits.ok()) return fits;
  weights_.RestorePrevious(reader.Floats(head.previous(), "the weights before"));
  copies_.Seed(weights_.weights(), weights_.version());
  copies_.Restore(&reader);
  first_ = reader.Floats(head.first(), "first weights");
  cuts_.GoOnFrom(head.last_cut());
  mode_->OnSeed();
  mode_->Restore(&reader);
  return reader.status();
}

}  // namespace strata::server
