#include "worker/exchange/all_reduce/reduce_plan.h"

#include <bit>
#include <set>

#include "common/require.h"

namespace strata::worker {
namespace {

using Kind = ReduceStep::Kind;

ReducePlan Ring(uint32_t n, uint32_t position) {
  const uint32_t next = (position + 1) % n, previous = (position + n - 1) % n;
  const auto slice = [&](uint32_t back) {
    const uint32_t k = (position + 2 * n - back) % n;
    return SliceRange{k, k + 1};
  };
  ReducePlan plan{.slices = n, .steps = {}};
  for (uint32_t s = 0; s + 1 < n; ++s) {
    plan.steps.push_back({Kind::kSendSum, next, slice(s + 1)});
    plan.steps.push_back({Kind::kAddSum, previous, slice(s + 2)});
  }
  plan.steps.push_back({Kind::kUpdate, position, slice(0)});
  for (uint32_t s = 0; s + 1 < n; ++s) {
    plan.steps.push_back({Kind::kSendWeights, next, slice(s)});
    plan.steps.push_back({Kind::kTakeWeights, previous, slice(s + 1)});
  }
  return plan;
}

// The nodes that participate in the halving, in order: the first `extra` are even nodes that also
// represent the odd one after them.
uint32_t ReducePlanRingPosition(uint32_t participant, uint32_t extra) {
  return participant < extra ? 2 * participant : participant + extra;
}

ReducePlan HalvingDoubling(uint32_t n, uint32_t position) {
  const uint32_t power = std::bit_floor(n), extra = n - power;
  const SliceRange all{0, power};
  ReducePlan plan{.slices = power, .steps = {}};
  if (position < 2 * extra && position % 2 == 1) {
    plan.steps.push_back({Kind::kSendSum, position - 1, all});
    plan.steps.push_back({Kind::kTakeWeights, position - 1, all});
    return plan;
  }
  const bool stands_for_two = position < 2 * extra;
  const uint32_t self = stands_for_two ? position / 2 : position - extra;
  if (stands_for_two) plan.steps.push_back({Kind::kAddSum, position + 1, all});
  SliceRange held = all;
  std::vector<ReduceStep> doubling;
  for (uint32_t distance = 1; distance < power; distance *= 2) {
    const uint32_t peer = ReducePlanRingPosition(self ^ distance, extra);
    const uint32_t middle = (held.begin + held.end) / 2;
    const SliceRange low{held.begin, middle}, high{middle, held.end};
    const bool keeps_low = (self & distance) == 0;
    const SliceRange kept = keeps_low ? low : high, given = keeps_low ? high : low;
    plan.steps.push_back({Kind::kSendSum, peer, given});
    plan.steps.push_back({Kind::kAddSum, peer, kept});
    doubling.push_back({Kind::kTakeWeights, peer, given});
    doubling.push_back({Kind::kSendWeights, peer, kept});
    held = kept;
  }
  plan.steps.push_back({Kind::kUpdate, position, held});
  plan.steps.insert(plan.steps.end(), doubling.rbegin(), doubling.rend());
  if (stands_for_two) plan.steps.push_back({Kind::kSendWeights, position + 1, all});
  return plan;
}

}  // namespace

std::vector<uint32_t> ReducePlan::Peers() const {
  std::set<uint32_t> peers;
  for (const ReduceStep& step : steps) {
    if (step.kind != Kind::kUpdate) peers.insert(step.peer);
  }
  return {peers.begin(), peers.end()};
}

SliceRange ReducePlan::Own() const {
  for (const ReduceStep& step : steps) {
    if (step.kind == Kind::kUpdate) return step.slices;
  }
  return {};
}

ReducePlan MakeReducePlan(proto::AllReduce::Algorithm algorithm, uint32_t nodes,
                          uint32_t position) {
  STRATA_REQUIRE(position < nodes);
  return algorithm == proto::AllReduce::HALVING_DOUBLING ? HalvingDoubling(nodes, position)
                                                         : Ring(nodes, position);
}

}  // namespace strata::worker
