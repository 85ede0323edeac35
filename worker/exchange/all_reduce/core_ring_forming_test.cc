// Nodes of an all-reduce die, one after the other, and the others go on: with the bits of a job in
// which each step is made by those whose sums are in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/exchange/slices.h"
#include "common/job/job.h"
#include "common/transport/sim/random.h"
#include "optimizer/norm_update.h"
#include "optimizer/weight_state.h"
#include "worker/exchange/testing/dropping_world.h"

namespace strata::worker {
namespace {

using proto::AllReduce;
using World = AllReduceWorld;

// Sums in the order of the algorithm, over members in the order of their ranks.
class SumOrder {
 public:
  SumOrder(const World::Options& options, std::vector<uint32_t> members)
      : options_(options), members_(std::move(members)) {}

  float Sum(uint64_t step, uint64_t i) const {
    const auto n = static_cast<uint32_t>(members_.size());
    if (options_.algorithm == AllReduce::RING) {
      const uint32_t first = SliceOf(i) + 1;
      float sum = Of(first % n, step, i);
      for (uint32_t k = 1; k < n; ++k) sum += Of((first + k) % n, step, i);
      return sum;
    }
    uint32_t power = 1;
    while (2 * power <= n) power *= 2;
    std::vector<float> sums;  // of those that swap halves
    for (uint32_t k = 0; k < n; ++k) {
      const bool gives = k % 2 == 1 && k < 2 * (n - power);
      if (gives) {
        sums.back() += Of(k, step, i);
      } else {
        sums.push_back(Of(k, step, i));
      }
    }
    for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
      for (size_t k = 0; k < sums.size() / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
    }
    return sums[0];
  }

 private:
  float Of(uint32_t position, uint64_t step, uint64_t i) const {
    return World::Gradient(options_.seed, members_[position], step, i);
  }
  uint32_t SliceOf(uint64_t i) const {
    const auto n = static_cast<uint32_t>(members_.size());
    const uint64_t chunk = i / options_.chunk_elements;
    const auto at = static_cast<uint32_t>(i % options_.chunk_elements);
    const auto elements = static_cast<uint32_t>(std::min<uint64_t>(
        options_.chunk_elements, options_.elements - chunk * options_.chunk_elements));
    uint32_t slice = 0;
    while (SliceStart(elements, n, slice + 1) <= at) ++slice;
    return slice;
  }

  const World::Options& options_;
  const std::vector<uint32_t> members_;
};

// One optimizer on one place, which is given each step's mean over its members.
class Oracle {
 public:
  Oracle(const World::Options& options, const DroppingWorld& world)
      : options_(options),
        world_(world),
        map_(options.elements, options.chunk_elements),
        update_(kernels::Cpu(), pool_, world.record().job(), world.record().samples_per_epoch(),
                world.record().layout(), map_),
        rule_(kernels::MakeUpdateRule(world.record().job(), 0)),
        mean_(kernels::Cpu(), pool_, rule_, options.elements,
              OptimizerRuns(world.record().layout(), 0, options.elements)) {
    std::vector<float> first(options.elements);
    for (uint64_t i = 0; i < options.elements; ++i) first[i] = World::FirstWeight(i);
    for (uint32_t c = 0; c < map_.chunks(); ++c) update_.Seed(ChunkId(c), Part(first, ChunkId(c)));
    mean_.Seed(Copy(first), 0);
  }

  std::vector<float> Step(uint64_t step) {
    const std::vector<uint32_t> members = world_.MembersAt(step);
    const SumOrder order(options_, members);
    std::vector<float> sum(options_.elements);
    for (uint64_t i = 0; i < options_.elements; ++i) sum[i] = order.Sum(step, i);
    const auto samples = static_cast<uint32_t>(members.size() * DroppingWorld::kSamples);
    mean_.Apply(Copy(sum), static_cast<float>(1.0 / samples), samples, {});
    const float* const mean = mean_.weights().floats();
    if (world_.record().job().optimizer().has_mean()) return {mean, mean + options_.elements};
    std::vector<float> weights;
    for (uint32_t c = 0; c < map_.chunks(); ++c) {
      const absl::Span<float> place = update_.mean(ChunkId(c));
      std::copy_n(mean + map_.OffsetOf(ChunkId(c)), place.size(), place.begin());
      update_.Complete(ChunkId(c));
    }
    update_.Apply(samples);
    for (uint32_t c = 0; c < map_.chunks(); ++c) {
      const Bytes& chunk = update_.weights(ChunkId(c));
      weights.insert(weights.end(), chunk.floats(), chunk.floats() + chunk.float_count());
    }
    return weights;
  }

 private:
  Bytes Copy(const std::vector<float>& floats) {
    const std::shared_ptr<float> copy = pool_.AllocateFloats(floats.size());
    std::copy(floats.begin(), floats.end(), copy.get());
    return AsBytes(copy, floats.size());
  }
  Bytes Part(const std::vector<float>& floats, ChunkId chunk) {
    const auto begin = floats.begin() + static_cast<ptrdiff_t>(map_.OffsetOf(chunk));
    return Copy({begin, begin + map_.ElementsOf(chunk)});
  }

  const World::Options& options_;
  const DroppingWorld& world_;
  BufferPool pool_;
  const ChunkMap map_;
  kernels::NormUpdate update_;
  const kernels::UpdateRule rule_;
  kernels::WeightState mean_;
};

constexpr const char* kOptimizers[] = {
    "sgd {}",  "momentum_sgd {}", "adam { weight_decay: 0.01 }",
    "lars {}", "mean {}",         "momentum_sgd {} clip_norm: 1"};

World::Options Shape(uint64_t seed) {
  World::Options options;
  options.seed = seed;
  options.nodes = 2 + static_cast<uint32_t>(seed % 4);
  options.elements = 150;
  options.chunk_elements = 48;
  options.clocks = 2 + seed % 5;
  options.algorithm = seed % 3 == 0 ? AllReduce::HALVING_DOUBLING : AllReduce::RING;
  // The rate follows the samples.
  options.job = absl::StrCat(
      "optimizer { ", kOptimizers[seed % std::size(kOptimizers)],
      " } schedule { base_lr: 0.01 warmup_epochs: 1 } connections: ", 1 + seed / 3 % 2);
  options.faults.break_both = seed % 5 == 1 ? 0.01 : 0;
  options.faults.break_one = seed % 5 == 2 ? 0.005 : 0;
  options.faults.drop = seed % 5 == 3 ? 0.02 : 0;
  options.faults.reorder = seed % 5 == 4 ? 0.05 : 0;
  options.faults.slow_connection = seed % 7 == 0 ? 0.3 : 0;
  options.faults.slow_delay_max = absl::Milliseconds(10);
  options.faults.notice_max = absl::Milliseconds(500);
  options.timing.give_up_after = absl::Hours(1);  // HELLO is lost, too
  return options;
}

// What the seeds have come upon, so that a test says what it has not seen.
struct Seen {
  int deaths = 0, rings = 0, lacking = 0, failures = 0, steps = 0;
};

void Plan(uint64_t seed, DroppingWorld* world, uint32_t nodes, uint64_t clocks) {
  transport::SimRandom random(seed * 977);
  const auto first = static_cast<uint32_t>(random.Below(nodes));
  const auto second = static_cast<uint32_t>(random.Below(nodes));
  const absl::Duration course = absl::Milliseconds(3) * static_cast<int64_t>(clocks);
  switch (seed % 6) {
    case 0:
      world->KillAt(first, absl::Milliseconds(1) + random.Between(absl::ZeroDuration(), course));
      break;
    case 1:
      world->KillAfter(first, 1 + random.Below(clocks * 8 * nodes), false);
      break;
    case 2:
      world->KillAfter(first, 1 + random.Below(2 * nodes), true);
      break;
    default:
      world->KillAfter(first, 1 + random.Below(clocks * 8 * nodes), false);
      if (seed % 6 == 5) {
        world->KillAt(second, random.Between(absl::Milliseconds(1), course));
      }
      world->KillAtForming((first + 1) % nodes);
  }
}

void ExpectGoesOn(uint64_t seed, Seen* seen) {
  const std::string what = absl::StrCat("seed ", seed);
  const World::Options options = Shape(seed);
  DroppingWorld world(options);
  Plan(seed, &world, options.nodes, options.clocks);
  ASSERT_TRUE(world.Run()) << what;
  seen->rings += static_cast<int>(world.rings());
  seen->lacking += static_cast<int>(world.lacking());
  if (!world.failure().ok()) {
    EXPECT_NE(world.failure().message().find("first weights"), absl::string_view::npos);
    ++seen->failures;
    return;
  }
  std::map<uint64_t, std::vector<float>> expected;
  Oracle oracle(options, world);
  for (uint64_t step = 0; step < options.clocks; ++step) expected[step + 1] = oracle.Step(step);
  for (uint32_t n = 0; n < options.nodes; ++n) {
    if (absl::IsAborted(world.status(n))) {
      ++seen->deaths;
      continue;
    }
    ASSERT_EQ(world.status(n), absl::OkStatus()) << what << ", node " << n;
    ASSERT_EQ(world.course(n).size(), options.clocks + 1) << what << ", node " << n;
    for (const auto& [steps, weights] : world.course(n)) {
      if (steps == 0) continue;
      ASSERT_EQ(weights, expected[steps])
          << what << ", node " << n << " after " << steps << " steps, of nodes "
          << absl::StrJoin(world.MembersAt(steps - 1), " ");
      ++seen->steps;
    }
  }
}

TEST(CoreRingForming, WhicheverNodesDieTheOthersHaveTheWeightsOfThoseWhoMadeEachStep) {
  // --gtest_random_seed=N has the Nth other seeds.
  constexpr uint64_t kSeeds = 120;
  const uint64_t begin = 1 + kSeeds * static_cast<uint64_t>(GTEST_FLAG_GET(random_seed));
  Seen seen;
  for (uint64_t seed = begin; seed < begin + kSeeds; ++seed) {
    ExpectGoesOn(seed, &seen);
    if (HasFatalFailure()) return;
  }
  const std::string text = absl::StrCat(seen.deaths, " deaths, ", seen.rings, " rings, ",
                                        seen.lacking, " of them after a step that some lacked, ",
                                        seen.failures, " failed, ", seen.steps, " steps compared");
  RecordProperty("seen", text);
  EXPECT_GE(seen.deaths, static_cast<int>(kSeeds / 2)) << text;
  EXPECT_GE(seen.rings, static_cast<int>(kSeeds / 2)) << text;
  EXPECT_GE(seen.lacking, static_cast<int>(kSeeds / 50)) << text;
  EXPECT_LE(seen.failures, static_cast<int>(kSeeds / 5)) << text;
}

}  // namespace
}  // namespace strata::worker
