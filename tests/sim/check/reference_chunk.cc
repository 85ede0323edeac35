#include "tests/sim/check/reference_chunk.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/require.h"

namespace strata::sim {
namespace {

// The balanced tree over leaves [begin, end); an empty leaf adds nothing.
std::vector<float> TreeSum(const std::vector<std::vector<float>>& leaves, size_t begin,
                           size_t end) {
  const size_t count = end - begin;
  if (count == 1) return leaves[begin];
  size_t left = 1;
  while (2 * left < count) left *= 2;
  std::vector<float> a = TreeSum(leaves, begin, begin + left);
  const std::vector<float> b = TreeSum(leaves, begin + left, end);
  if (a.empty()) return b;
  for (size_t i = 0; i < b.size(); ++i) a[i] = a[i] + b[i];
  return a;
}

bool AppliesClocks(const proto::Consistency& consistency) {
  if (consistency.has_async()) return false;
  return !consistency.has_lazy() || consistency.lazy().apply() == proto::Lazy::PER_CLOCK;
}

// s of lazy; sync has none.
uint64_t BoundOf(const proto::Consistency& consistency) {
  return consistency.has_lazy() ? consistency.lazy().staleness() : 0;
}

}  // namespace

std::vector<float> ReferenceNodeSum(absl::Span<const absl::Span<const float>> ranks) {
  STRATA_REQUIRE(!ranks.empty());
  std::vector<std::vector<float>> leaves;
  for (const absl::Span<const float> rank : ranks) {
    STRATA_REQUIRE(rank.size() == ranks[0].size());
    leaves.emplace_back(rank.begin(), rank.end());
  }
  return TreeSum(leaves, 0, leaves.size());
}

ReferenceChunk::ReferenceChunk(const proto::JobRecord& record, ChunkId chunk,
                               std::vector<float> first_weights)
    : consistency_(record.job().consistency()),
      batch_per_rank_(record.job().has_data() ? record.job().data().batch_per_rank() : 0),
      optimizer_(consistency_.lazy().local_steps() > 0 ? ReferenceOptimizer::Outer(record, chunk)
                 : is_elastic()                        ? ReferenceOptimizer::Elastic(record, chunk)
                 : ReferenceOptimizer::IsMean(record)  ? ReferenceOptimizer::Mean(record, chunk)
                                                       : ReferenceOptimizer(record, chunk)),
      weights_(std::move(first_weights)) {
  std::map<uint32_t, proto::LogicalNode> by_first_rank;
  for (const proto::LogicalNode& node : record.view().nodes()) {
    by_first_rank[node.first_rank()] = node;
  }
  for (const auto& [first_rank, node] : by_first_rank) {
    nodes_.push_back({.id = node.node(), .ranks = node.ranks()});
    nodes_.back().retired = node.absent();
    if (!node.absent()) ranks_at_[0] += node.ranks();
  }
  for (Node& node : nodes_) node.base = weights_;
  mean_square_.assign(weights_.size(), 0.0f);
  if (weights_.size() != optimizer_.elements()) {
    Violate(absl::StrFormat("%d first weights, not %d", weights_.size(), optimizer_.elements()));
  }
}

ReferenceChunk::Node* ReferenceChunk::Find(uint32_t id) {
  for (Node& node : nodes_) {
    if (node.id == id) return &node;
  }
  Violate(absl::StrFormat("node %d is not in the view", id));
  return nullptr;
}

void ReferenceChunk::Violate(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

bool ReferenceChunk::Check(const Node& node, const ReferencePush& push) {
  std::string what;
  if (push.clock != node.received) {
    what = absl::StrFormat(", expected %d", node.received);
  } else if (node.retired) {
    what = " after it had retired";
  } else if (!node.answered) {
    what = " while the push before was not answered";
  } else if (push.base_version > version_) {
    what = absl::StrFormat(" on base version %d of %d", push.base_version, version_);
  } else if (!push.sum.empty() && (push.sum.size() != weights_.size() || push.samples == 0)) {
    what = absl::StrFormat(" with %d elements of %d samples", push.sum.size(), push.samples);
  }
  if (what.empty() && compensates() && push.base_version != node.base_version) {
    what = absl::StrFormat(" on base version %d, it was given %d", push.base_version,
                           node.base_version);
  }
  if (what.empty()) return true;
  Violate(absl::StrFormat("node %d pushed clock %d%s", node.id, push.clock, what));
  return false;
}

std::vector<ReferenceChunk::Due> ReferenceChunk::OnPush(ReferencePush push) {
  Node* const node = Find(push.node);
  if (node == nullptr || !Check(*node, push)) return {};
  ++node->received;
  node->versions_behind = version_ - push.base_version;
  node->answered = false;
  if (has_quorum()) {
    const absl::Time now = push.at;
    node->held = node->versions_behind == 0;
    const bool is_first = node->held && node->open.empty();
    if (is_first) {
      node->open.push_back(std::move(push));
    } else {
      node->late.push_back(std::move(push));
    }
    CloseClock(now);
  } else if (AppliesClocks(consistency_)) {
    node->open.push_back(std::move(push));
    ApplyClocks();
  } else {
    ApplyPush(*node, push);
  }
  return CollectDue();
}

std::vector<ReferenceChunk::Due> ReferenceChunk::OnRetire(uint32_t id, absl::Time now) {
  Node* const node = Find(id);
  if (node == nullptr) return {};
  node->retired = true;
  if (has_quorum()) {
    CloseClock(now);
  } else if (AppliesClocks(consistency_)) {
    ApplyClocks();
  }
  return CollectDue();
}

void ReferenceChunk::OnChange(const proto::ViewChange& change) {
  uint32_t ranks = ranks_at_.rbegin()->second;
  for (const uint32_t left : change.left()) {
    if (const Node* const node = Find(left)) ranks -= node->ranks;
  }
  for (const uint32_t joined : change.joined()) {
    Node* const node = Find(joined);
    if (node == nullptr) return;
    ranks += node->ranks;
    // Its pushes before it left may still wait for others.
    *node = {.id = node->id,
             .ranks = node->ranks,
             .received = change.at_clock(),
             .open = std::move(node->open),
             .base = weights_};
  }
  ranks_at_[change.at_clock()] = ranks;
}

uint32_t ReferenceChunk::RanksAt(uint64_t clock) const {
  return std::prev(ranks_at_.upper_bound(clock))->second;
}

std::vector<ReferenceChunk::Due> ReferenceChunk::OnReplay(uint32_t id) {
  if (Node* const node = Find(id)) node->held = false;
  return CollectDue();
}

void ReferenceChunk::TakeBack(uint32_t id, uint64_t clock) {
  Node* const node = Find(id);
  while (node != nullptr && node->received > clock) {
    STRATA_REQUIRE(!node->open.empty() && !node->answered);
    node->open.pop_back();
    --node->received;
    node->answered = true;
  }
}

std::vector<ReferenceChunk::Due> ReferenceChunk::OnTime(absl::Time now) {
  if (has_quorum()) CloseClock(now);
  return CollectDue();
}

bool ReferenceChunk::IsOver(absl::Time now) {
  size_t going_on = 0, waiting = 0, late = 0, missing = 0;
  for (const Node& node : nodes_) {
    if (!node.open.empty()) ++waiting;
    if (!node.late.empty()) ++late;
    if (node.retired) continue;
    ++going_on;
    if (node.open.empty() && node.late.empty()) ++missing;
  }
  if (waiting + late == 0) return false;
  if (waiting < std::min<size_t>(consistency_.lazy().quorum().nodes(), going_on)) return false;
  if (missing == 0) return true;
  if (quorum_at_ == absl::InfiniteFuture()) quorum_at_ = now;
  return now - quorum_at_ >= absl::Milliseconds(consistency_.lazy().quorum().grace_ms());
}

void ReferenceChunk::CloseClock(absl::Time now) {
  if (!IsOver(now)) return;
  std::vector<std::vector<float>> in_time(nodes_.size()), late(nodes_.size());
  uint64_t samples = 0;
  double rates = 0, late_rates = 0;  // each times its samples
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].held = false;
    for (ReferencePush& push : std::exchange(nodes_[i].open, {})) {
      samples += push.samples;
      rates += double{push.rate} * push.samples;
      in_time[i] = std::move(push.sum);
    }
    for (ReferencePush& push : std::exchange(nodes_[i].late, {})) {
      samples += push.samples;
      late_rates += double{push.rate} * push.samples;
      late[i] = TreeSum({late[i], std::move(push.sum)}, 0, 2);
    }
  }
  if (samples > 0) {
    const std::vector<float> both =
        TreeSum({TreeSum(in_time, 0, in_time.size()), TreeSum(late, 0, late.size())}, 0, 2);
    optimizer_.Update(both, samples, samples, 1.0, &weights_, (rates + late_rates) / samples);
  }
  quorum_at_ = absl::InfiniteFuture();
  ++version_;
}

bool ReferenceChunk::AllHavePushed(uint64_t times) const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [times](const Node& node) { return node.retired || node.received >= times; });
}

// Every clock that all nodes have pushed, if at least one node has.
void ReferenceChunk::ApplyClocks() {
  while (AllHavePushed(applied_clocks_ + 1)) {
    std::vector<std::vector<float>> leaves(nodes_.size());
    uint64_t samples = 0;
    double rate = 0;
    bool anybody = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (node.open.empty() || node.open.front().clock != applied_clocks_) continue;
      anybody = true;
      leaves[i] = std::move(node.open.front().sum);
      samples += node.open.front().samples;
      rate = node.open.front().rate;
      node.open.pop_front();
    }
    if (!anybody) return;
    if (samples > 0) {
      optimizer_.Update(TreeSum(leaves, 0, leaves.size()), samples, samples, 1.0, &weights_, rate);
    }
    ++applied_clocks_;
    ++version_;
  }
}

void ReferenceChunk::ApplyPush(const Node& node, const ReferencePush& push) {
  if (push.samples > 0) {
    const double samples = push.samples;
    double factor = 1.0;
    if (consistency_.lazy().local_steps() > 0) {
      factor = static_cast<double>(node.ranks) / RanksAt(push.clock);
    } else if (consistency_.has_lazy()) {
      // Its share of a clock's samples. If a rank's batch is unknown, every rank is assumed to have
      // the mean of this node's.
      const double per_rank = batch_per_rank_ > 0 ? batch_per_rank_ : samples / node.ranks;
      factor = samples / (per_rank * RanksAt(push.clock));
    } else if (consistency_.async().damping() == proto::Async::INVERSE_STALENESS) {
      if (node.versions_behind > 0) factor = 1.0 / static_cast<double>(node.versions_behind);
    }
    if (is_elastic()) {
      std::vector<float> distance;
      for (size_t i = 0; i < push.sum.size(); ++i) distance.push_back(weights_[i] - push.sum[i]);
      optimizer_.Update(distance, 1, push.samples, 1.0 / nodes_.size(), &weights_);
    } else if (compensates() && !push.sum.empty()) {
      optimizer_.Update(Compensate(node, push), 1, push.samples, factor, &weights_, push.rate);
    } else {
      optimizer_.Update(push.sum, push.samples, push.samples, factor, &weights_, push.rate);
    }
  }
  ++version_;
}

std::vector<float> ReferenceChunk::Compensate(const Node& node, const ReferencePush& push) {
  const proto::DelayCompensation& how = consistency_.async().delay_compensation();
  const auto reciprocal = static_cast<float>(1.0 / push.samples);
  std::vector<float> corrected;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const float g = reciprocal * push.sum[i];
    float lambda = how.lambda();
    if (how.adaptive()) {
      mean_square_[i] = how.decay() * mean_square_[i] + (1.0f - how.decay()) * (g * g);
      lambda = lambda / std::sqrt(mean_square_[i] + 1e-7f);
    }
    corrected.push_back(g + lambda * g * g * (weights_[i] - node.base[i]));
  }
  return corrected;
}

const std::vector<float>& ReferenceChunk::WeightsFor(uint32_t id) {
  const Node* const node = Find(id);
  return keeps_bases() && node != nullptr ? node->base : weights_;
}

uint64_t ReferenceChunk::VersionFor(uint32_t id) {
  const Node* const node = Find(id);
  return keeps_bases() && node != nullptr ? node->base_version : version_;
}

uint32_t ReferenceChunk::StalenessOf(const Node& node) const {
  if (consistency_.has_async() || has_quorum()) {
    return static_cast<uint32_t>(node.versions_behind);
  }
  uint64_t missing = 0;
  while (!AllHavePushed(node.received - missing)) ++missing;
  return static_cast<uint32_t>(missing);
}

std::vector<ReferenceChunk::Due> ReferenceChunk::CollectDue() {
  std::vector<Due> due;
  for (Node& node : nodes_) {
    if (node.answered) continue;
    const uint32_t staleness = StalenessOf(node);
    const bool is_gated = !consistency_.has_async() && !has_quorum();
    if (is_gated && staleness > BoundOf(consistency_)) continue;
    if (node.held) continue;
    node.answered = true;
    node.base = weights_;
    node.base_version = version_;
    due.push_back({node.id, node.received - 1, staleness, version_});
  }
  return due;
}

uint64_t ReferenceChunk::min_clock() const {
  uint64_t most = 0;
  for (const Node& node : nodes_) most = std::max(most, node.received);
  while (!AllHavePushed(most)) --most;
  return most;
}

uint64_t ReferenceChunk::received(uint32_t id) const {
  for (const Node& node : nodes_) {
    if (node.id == id) return node.received;
  }
  return 0;
}

}  // namespace strata::sim
