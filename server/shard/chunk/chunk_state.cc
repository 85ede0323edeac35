#include "server/shard/chunk/chunk_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"

namespace strata::server {
namespace {

PushResult Refuse(wire::ErrorCode error, std::string reason) {
  return {.error = error, .reason = std::move(reason)};
}

}  // namespace

ChunkState::ChunkState(const kernels::Kernels& kernels, BufferPool& pool,
                       kernels::EncoderScratch* scratch, const ChunkRules& rules, uint32_t elements,
                       std::vector<OptimizerRun> runs)
    : kernels_(kernels),
      pool_(pool),
      rules_(rules),
      weights_(kernels, pool, rules.update, elements, std::move(runs)),
      copies_(rules.answers, kernels, pool, scratch, rules.ranks_of_node.size()),
      nodes_(rules.ranks_of_node.size()) {
  if (!rules.policy.has_quorum()) return;
  quorum_ = std::make_unique<QuorumClock>(kernels, pool, nodes_.size(), elements);
}

void ChunkState::Seed(const Bytes& weights, uint64_t checksum) {
  copies_.Seed(weights);
  weights_.Seed(weights, checksum);
  if (!keeps_bases()) return;
  for (NodeProgress& node : nodes_) node.base = {weights_.version(), weights_.weights()};
  if (!rules_.compensation || !rules_.compensation->adaptive) return;
  mean_square_ = pool_.AllocateFloats(weights_.elements());
  std::fill_n(mean_square_.get(), weights_.elements(), 0.0f);
}

PushResult ChunkState::OnPush(Push push, std::vector<DueAnswer>* due) {
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
  node.versions_behind =
      static_cast<uint32_t>(std::min<uint64_t>(weights_.version() - push.base_version, UINT32_MAX));
  PushResult result;
  if (quorum_ != nullptr) {
    JoinOpenClock(push, std::move(sum));
  } else if (rules_.policy.applies_per_clock()) {
    result = AddToClock(push, std::move(sum), due);
  } else {
    ApplyOnArrival(push, sum);
  }
  CollectDue(due);
  return result;
}

PushResult ChunkState::OnDuplicate(const Push& push, std::vector<DueAnswer>* due) {
  const NodeProgress& node = nodes_[push.node];
  const bool is_last = push.clock + 1 == node.received;
  const bool same_process = push.incarnation == node.incarnation;
  const bool both_known = push.checksum != 0 && node.checksum != 0;
  const bool differs =
      (both_known && push.checksum != node.checksum) || push.samples != node.samples;
  if (is_last && same_process && differs) {
    return Refuse(wire::ErrorCode::kConflict, "other content than before");
  }
  if (is_last && node.held && !same_process) {
    nodes_[push.node].held = false;
    CollectDue(due);
    return {.duplicate = true};
  }
  // A push before the last was answered, or the process would not have pushed again; a new process
  // that starts over wants its answer.
  if ((is_last && !node.waiting) || (!is_last && !same_process)) {
    due->push_back({.node = push.node, .clock = push.clock, .staleness = 0});
    if (is_last) due->back() = AnswerTo(push.node);
    due->back().again = true;
  }
  return {.duplicate = true};
}

PushResult ChunkState::Check(const Push& push) const {
  const NodeProgress& node = nodes_[push.node];
  if (push.clock > node.received) {
    return Refuse(wire::ErrorCode::kBeyondWindow,
                  absl::StrFormat("clock %d, expected %d", push.clock, node.received));
  }
  if (node.retired) return Refuse(wire::ErrorCode::kBeyondWindow, "the node has retired");
  if (node.waiting) {
    return Refuse(wire::ErrorCode::kBeyondWindow, "the push before is not answered");
  }
  if (push.base_version > weights_.version()) {
    return Refuse(wire::ErrorCode::kBeyondWindow,
                  absl::StrFormat("base_version %d of %d", push.base_version, weights_.version()));
  }
  if (rules_.compensation && push.base_version != node.base.version) {
    return Refuse(
        wire::ErrorCode::kBeyondWindow,
        absl::StrFormat("base_version %d, it was given %d", push.base_version, node.base.version));
  }
  if (!push.sum.empty() && push.samples == 0) {
    return Refuse(wire::ErrorCode::kMalformed, "sample_count is 0");
  }
  return {};
}

PushResult ChunkState::CheckSum(const Push& push, Addend* addend) const {
  const Bytes& sum = push.sum;
  if (sum.empty()) return {};
  const bool is_encoded = push.codec != wire::Codec::kNone;
  if (!is_encoded && rules_.policy.answers_alike()) {
    *addend = Addend(sum);
    addend->unchecked = true;
    return {};
  }
  const absl::StatusOr<kernels::CheckedPayload> checked = kernels::CheckedPayload::Check(
      kernels_, push.codec, weights_.elements(), absl::MakeConstSpan(sum.data(), sum.size()));
  if (checked.ok()) {
    *addend = is_encoded ? Addend(sum, *checked) : Addend(sum);
    return {};
  }
  if (!is_encoded) return Refuse(wire::ErrorCode::kNotFinite, kNotFiniteText);
  return Refuse(wire::ErrorCode::kMalformed, std::string(checked.status().message()));
}

PushResult ChunkState::AddToClock(const Push& push, Addend sum, std::vector<DueAnswer>* due) {
  OpenClock& clock = open_[push.clock];
  if (clock.sum == nullptr) {
    clock.sum =
        CreateAccumulator(rules_.order, kernels_, pool_, nodes_.size(), weights_.elements());
  }
  clock.samples += push.samples;
  Withdraw(push.clock, clock.sum->Add(push.node, std::move(sum)), due);
  ApplyCompleteClocks(due);
  const size_t own = std::erase_if(*due, [&](const DueAnswer& answer) {
    return answer.op == wire::Op::kError && answer.node == push.node;
  });
  return own == 0 ? PushResult() : Refuse(wire::ErrorCode::kNotFinite, kNotFiniteText);
}

void ChunkState::Withdraw(uint64_t clock, const std::vector<size_t>& nodes,
                          std::vector<DueAnswer>* due) {
  for (const size_t i : nodes) {
    NodeProgress& node = nodes_[i];
    open_.at(clock).samples -= node.samples;
    node.received = clock;
    node.waiting = false;
    node.checksum = 0;
    due->push_back({.op = wire::Op::kError, .node = i, .clock = clock});
  }
}

void ChunkState::ApplyOnArrival(const Push& push, const Addend& sum) {
  if (push.samples == 0) return weights_.Skip();
  if (rules_.is_elastic) return Meet(push);
  const double samples = push.samples;
  double rate = rules_.policy.Damping(nodes_[push.node].versions_behind);
  if (rules_.pushes_changes) {
    rate = static_cast<double>(rules_.ranks_of_node[push.node]) / rules_.ranks;
  } else if (rules_.policy.scales_to_clock()) {
    const double rank_samples = rules_.batch_per_rank > 0
                                    ? rules_.batch_per_rank
                                    : samples / rules_.ranks_of_node[push.node];
    // The rate takes the share, not the gradient: weight decay and Adam's step, which do not follow
    // the gradient's scale, then count once per clock, too.
    rate = samples / (rank_samples * rules_.ranks);
  }
  Bytes gradient = sum.Decoded(pool_);
  auto scale = static_cast<float>(1.0 / samples);
  if (rules_.compensation && !gradient.empty()) {
    gradient = Compensated(push, gradient);
    scale = 1.0f;
  }
  weights_.Apply(gradient, scale, push.samples, rate);
}

void ChunkState::Meet(const Push& push) {
  if (push.sum.empty()) return weights_.Skip();
  const size_t count = weights_.elements();
  const std::shared_ptr<float> distance = pool_.AllocateFloats(count);
  const float* const center = weights_.weights().floats();
  const float* const node = push.sum.floats();
  for (size_t i = 0; i < count; ++i) distance.get()[i] = center[i] - node[i];
  weights_.Apply(AsBytes(distance, count), 1.0f, push.samples,
                 1.0 / static_cast<double>(nodes_.size()));
}

Bytes ChunkState::Compensated(const Push& push, const Bytes& sum) {
  const std::shared_ptr<float> mean = pool_.AllocateFloats(weights_.elements());
  kernels_.compensate(*rules_.compensation, static_cast<float>(1.0 / push.samples), sum.floats(),
                      weights_.weights().floats(), nodes_[push.node].base.weights.floats(),
                      mean_square_.get(), mean.get(), weights_.elements());
  return AsBytes(mean, weights_.elements());
}

// Clocks complete in order, because each node's pushes are contiguous.
void ChunkState::ApplyCompleteClocks(std::vector<DueAnswer>* due) {
  uint64_t gate = Gate();
  while (!open_.empty() && open_.begin()->first < gate) {
    OpenClock& clock = open_.begin()->second;
    if (const std::vector<size_t> bad = clock.sum->Check(); !bad.empty()) {
      Withdraw(open_.begin()->first, bad, due);
      gate = Gate();
      continue;
    }
    ApplyClock(clock.sum->Finish(), clock.samples);
    open_.erase(open_.begin());
  }
}

void ChunkState::ApplyClock(const Bytes& sum, uint64_t samples) {
  if (samples == 0) return weights_.Skip();
  weights_.Apply(sum, static_cast<float>(1.0 / static_cast<double>(samples)), samples, 1.0);
}

void ChunkState::JoinOpenClock(const Push& push, Addend sum) {
  const bool in_time = push.base_version == weights_.version();
  nodes_[push.node].held = in_time;
  // What the process before has pushed may be in the same clock.
  if (in_time && !quorum_->Waits(push.node)) {
    quorum_->Join(push.node, std::move(sum), push.samples);
  } else {
    quorum_->JoinLate(push.node, std::move(sum), push.samples);
  }
  CloseIfOver(push.came_at);
}

// What was late in the last clock of all waits for nobody: it closes when all have retired.
void ChunkState::CloseIfOver(absl::Time now) {
  if (quorum_->empty()) return;
  size_t live = 0, missing = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].retired) continue;
    ++live;
    if (!quorum_->Holds(i)) ++missing;
  }
  if (quorum_->waiting() < std::min<size_t>(rules_.policy.quorum(), live)) return;
  if (missing > 0) {
    if (closes_at_ == absl::InfiniteFuture()) closes_at_ = now + rules_.policy.grace();
    if (now < closes_at_) return;
  }
  closes_at_ = absl::InfiniteFuture();
  for (NodeProgress& node : nodes_) node.held = false;
  const uint64_t samples = quorum_->samples();
  ApplyClock(quorum_->Close(), samples);
}

void ChunkState::OnTime(absl::Time now, std::vector<DueAnswer>* due) {
  if (now < closes_at_) return;
  CloseIfOver(now);
  CollectDue(due);
}

void ChunkState::OnRetire(size_t node, absl::Time now, std::vector<DueAnswer>* due) {
  nodes_[node].retired = true;
  if (quorum_ != nullptr) {
    CloseIfOver(now);
  } else {
    ApplyCompleteClocks(due);
  }
  CollectDue(due);
}

void ChunkState::OnCut(size_t node, uint64_t clock, std::vector<DueAnswer>* due) {
  nodes_[node].cut_waiting = true;
  nodes_[node].cut_clock = clock;
  CollectDue(due);
}

void ChunkState::CollectDue(std::vector<DueAnswer>* due) {
  const uint64_t gate = Gate();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    NodeProgress& node = nodes_[i];
    if (node.waiting && !node.held && rules_.policy.MayAnswer(node.received - 1, gate)) {
      node.waiting = false;
      due->push_back(AnswerTo(i));
      if (keeps_bases()) node.base = {weights_.version(), weights_.weights()};
    }
    if (node.cut_waiting && gate == kClockInfinity) {
      node.cut_waiting = false;
      due->push_back({.op = wire::Op::kCutAnswer, .node = i, .clock = node.cut_clock});
    }
  }
}

DueAnswer ChunkState::AnswerTo(size_t node) const {
  const uint64_t clock = nodes_[node].received - 1;
  return {.node = node,
          .clock = clock,
          .staleness = rules_.policy.StalenessOf(clock, Gate(), nodes_[node].versions_behind)};
}

WeightVersion ChunkState::WeightsFor(const DueAnswer& answer) const {
  const bool as_before = answer.again && answer.op == wire::Op::kAnswer && keeps_bases();
  if (as_before) return nodes_[answer.node].base;
  return {weights_.version(), weights_.weights()};
}

uint64_t ChunkState::Gate() const {
  uint64_t least = kClockInfinity;
  for (const NodeProgress& node : nodes_) {
    if (!node.retired) least = std::min(least, node.received);
  }
  return least;
}

uint64_t ChunkState::MinClock() const {
  const uint64_t gate = Gate();
  if (gate != kClockInfinity) return gate;
  uint64_t most = 0;
  for (const NodeProgress& node : nodes_) most = std::max(most, node.received);
  return most;
}

size_t ChunkState::bytes() const {
  size_t bytes = weights_.bytes() + copies_.bytes();
  if (mean_square_ != nullptr) bytes += weights_.elements() * sizeof(float);
  // Where they are not the newest: each of them is held for one node, or for few.
  for (const NodeProgress& node : nodes_) {
    if (node.base.version != weights_.version()) bytes += node.base.weights.size();
  }
  for (const auto& [clock, open] : open_) bytes += open.sum->held_bytes();
  if (quorum_ != nullptr) bytes += quorum_->held_bytes();
  return bytes;
}

size_t ChunkState::held() const {
  size_t held = quorum_ == nullptr ? 0 : quorum_->held();
  for (const auto& [clock, open] : open_) held += open.sum->held();
  return held;
}

}  // namespace strata::server
