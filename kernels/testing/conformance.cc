#include "kernels/testing/conformance.h"

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/testing/reference.h"

namespace strata::kernels {
namespace {

std::vector<Guarded> Inputs(size_t k, size_t n, std::mt19937* random) {
  std::vector<Guarded> inputs;
  for (size_t j = 0; j < k; ++j) {
    inputs.emplace_back(n, j % 5);
    inputs.back().Fill(random, -1e3f, 1e3f);
  }
  return inputs;
}

std::vector<const float*> Pointers(std::vector<Guarded>& buffers) {
  std::vector<const float*> pointers;
  for (Guarded& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

TEST_P(KernelsConformance, SumHasTheBitsOfTheTreeAtEverySizeAndAlignment) {
  std::mt19937 random(1);
  for (size_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 31, 64, 67, 128}) {
    for (size_t n : Sizes()) {
      if (k > 8 && n > 5000 && k != 17) continue;
      std::vector<Guarded> inputs = Inputs(k, n, &random);
      Guarded out(n, (n + k) % 4), expected(n, 0);
      reference::Sum(Pointers(inputs), expected.data(), n);
      ASSERT_TRUE(kernels().sum(Pointers(inputs), out.data(), n)) << "k=" << k << " n=" << n;
      ASSERT_TRUE(out.SameBits(expected)) << "k=" << k << " n=" << n;
      ASSERT_TRUE(out.SentinelsStand()) << "k=" << k << " n=" << n;
      Guarded far(n, (n + 2 * k) % 17);
      ASSERT_TRUE(kernels().sum_far(Pointers(inputs), far.data(), n)) << "k=" << k << " n=" << n;
      ASSERT_TRUE(far.SameBits(expected)) << "far, k=" << k << " n=" << n;
      ASSERT_TRUE(far.SentinelsStand()) << "far, k=" << k << " n=" << n;
    }
  }
}

TEST_P(KernelsConformance, SumTellsWhetherItIsFiniteWhereverNanOrInfinityLies) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(6);
  for (size_t k : {1, 2, 3, 5, 8, 9, 17, 64}) {
    for (size_t n : {1, 15, 64, 1037}) {
      std::vector<Guarded> inputs = Inputs(k, n, &random);
      Guarded out(n, 1);
      for (size_t j = 0; j < k; ++j) {
        for (size_t at = 0; at<n; at += n> 64 ? 129 : 7) {
          for (float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
            const float good = std::exchange(inputs[j].data()[at], bad);
            ASSERT_FALSE(kernels().sum(Pointers(inputs), out.data(), n)) << k << " " << n;
            ASSERT_FALSE(kernels().sum_far(Pointers(inputs), out.data(), n)) << k << " " << n;
            inputs[j].data()[at] = good;
          }
        }
      }
      inputs[0].data()[n - 1] = std::numeric_limits<float>::max();
      const bool overflows = k > 1;
      if (overflows) inputs[1].data()[n - 1] = std::numeric_limits<float>::max();
      ASSERT_EQ(kernels().sum(Pointers(inputs), out.data(), n), !overflows) << k << " " << n;
    }
  }
}

TEST_P(KernelsConformance, SumMayWriteOverAnyOneOfItsInputs) {
  std::mt19937 random(2);
  for (size_t k : {1, 2, 3, 8, 9, 13, 65}) {
    for (size_t target = 0; target < k; ++target) {
      const size_t n = 1037;
      std::vector<Guarded> inputs = Inputs(k, n, &random);
      Guarded expected(n, 0);
      reference::Sum(Pointers(inputs), expected.data(), n);
      kernels().sum(Pointers(inputs), inputs[target].data(), n);
      ASSERT_TRUE(inputs[target].SameBits(expected)) << "k=" << k << " target=" << target;
      ASSERT_TRUE(inputs[target].SentinelsStand());
    }
  }
}

TEST_P(KernelsConformance, TreeOverRanksIsTheTreeOverEqualAlignedPowerOfTwoBlocks) {
  std::mt19937 random(3);
  const size_t n = 130;
  for (size_t nodes = 1; nodes <= 9; ++nodes) {
    for (size_t ranks_per_node : {1, 2, 4, 8}) {
      std::vector<Guarded> ranks = Inputs(nodes * ranks_per_node, n, &random);
      const std::vector<const float*> pointers = Pointers(ranks);
      Guarded flat(n, 0), layered(n, 0);
      kernels().sum(pointers, flat.data(), n);
      std::vector<Guarded> sums;
      for (size_t node = 0; node < nodes; ++node) {
        sums.emplace_back(n, 0);
        kernels().sum(absl::MakeSpan(pointers).subspan(node * ranks_per_node, ranks_per_node),
                      sums.back().data(), n);
      }
      kernels().sum(Pointers(sums), layered.data(), n);
      ASSERT_TRUE(flat.SameBits(layered)) << nodes << " x " << ranks_per_node;
    }
  }
}

TEST_P(KernelsConformance, TreeSplitLeavesTheLargestPowerOfTwoOnTheLeft) {
  EXPECT_EQ(SumTreeSplit(2), 1u);
  EXPECT_EQ(SumTreeSplit(3), 2u);
  EXPECT_EQ(SumTreeSplit(4), 2u);
  EXPECT_EQ(SumTreeSplit(5), 4u);
  EXPECT_EQ(SumTreeSplit(64), 32u);
  EXPECT_EQ(SumTreeSplit(65), 64u);
}

OptimizerParams ParamsOf(OptimizerKind kind) {
  OptimizerParams params;
  params.kind = kind;
  params.momentum = 0.9f;
  params.beta1 = 0.88f;
  params.beta2 = 0.9975f;
  params.epsilon = 1e-7f;
  params.initial_accumulator = 0.1f;
  params.l1 = 0.05f;
  params.l2 = 0.01f;
  params.beta = 0.5f;
  return params;
}

constexpr OptimizerKind kKinds[] = {
    OptimizerKind::kSgd,     OptimizerKind::kMomentumSgd, OptimizerKind::kNesterov,
    OptimizerKind::kAdam,    OptimizerKind::kAdamW,       OptimizerKind::kRmspropWarmup,
    OptimizerKind::kAdagrad, OptimizerKind::kFtrl,        OptimizerKind::kMean};

// Buffers of one optimizer: weights, state and a gradient.
struct Trained {
  Guarded w, next, state0, state1, gradient;
  OptimizerKind kind;

  // With `alike` all lie at the same place within 16 bytes.
  Trained(OptimizerKind kind, size_t n, size_t shift, bool alike = false)
      : w(n, shift),
        next(n, alike ? shift : (shift + 1) % 4),
        state0(n, shift),
        state1(n, shift),
        gradient(n, alike ? shift : (shift + 3) % 4),
        kind(kind) {
    std::mt19937 random(17);
    w.Fill(&random);
    gradient.Fill(&random, -40.0f, 40.0f);
    // Means of squares have no sign: of the root of a negative number the bits are anybody's.
    const bool squares_come_first =
        kind == OptimizerKind::kRmspropWarmup || kind == OptimizerKind::kAdagrad;
    (squares_come_first ? state1 : state0).Fill(&random, -0.5f, 0.5f);
    (squares_come_first ? state0 : state1).Fill(&random, 0.0f, 0.5f);
  }
  float* State(int i) {
    if (StateVectors(kind) <= i) return nullptr;
    return i == 0 ? state0.data() : state1.data();
  }
  bool SentinelsStand() const {
    return w.SentinelsStand() && next.SentinelsStand() && state0.SentinelsStand() &&
           state1.SentinelsStand() && gradient.SentinelsStand();
  }
};

TEST_P(KernelsConformance, OptimizersHaveTheBitsOfThePlainLoopOverSeveralUpdates) {
  for (OptimizerKind kind : kKinds) {
    for (float decay : {0.0f, 5e-4f}) {
      for (size_t n : Sizes()) {
        const bool alike = decay != 0;
        Trained got(kind, n, n % 4, alike), expected(kind, n, 0);
        for (uint64_t update = 1; update <= 3; ++update) {
          const OptimizerStep step = {.lr = 0.05f / update,
                                      .decay = decay,
                                      .gradient_scale = 1.0f / 128,
                                      .update = update,
                                      .sgd_share = 0.25f * update,
                                      .rms_share = 0.01f / update};
          const OptimizerParams params = ParamsOf(kind);
          kernels().optimize(params, step, got.gradient.data(), got.w.data(), got.next.data(),
                             got.State(0), got.State(1), n);
          reference::Optimize(params, step, expected.gradient.data(), expected.w.data(),
                              expected.next.data(), expected.State(0), expected.State(1), n);
          ASSERT_TRUE(got.next.SameBits(expected.next)) << int(kind) << " n=" << n;
          ASSERT_TRUE(got.state0.SameBits(expected.state0)) << int(kind) << " n=" << n;
          ASSERT_TRUE(got.state1.SameBits(expected.state1)) << int(kind) << " n=" << n;
          ASSERT_TRUE(got.SentinelsStand()) << int(kind) << " n=" << n;
          got.w.CopyFrom(got.next);
          expected.w.CopyFrom(expected.next);
        }
      }
    }
  }
}

TEST_P(KernelsConformance, OptimizersHaveTheSameBitsWhereWeightsAreWrittenFar) {
  for (OptimizerKind kind : kKinds) {
    for (size_t n : {size_t{3}, size_t{21}, size_t{4133}}) {
      for (size_t shift : {0, 1, 6, 15}) {
        Trained got(kind, n, shift), expected(kind, n, shift);
        OptimizerStep step = {0.05f, 5e-4f, 1.0f / 128, 3};
        const OptimizerParams params = ParamsOf(kind);
        kernels().optimize(params, step, expected.gradient.data(), expected.w.data(),
                           expected.next.data(), expected.State(0), expected.State(1), n);
        step.far = true;
        kernels().optimize(params, step, got.gradient.data(), got.w.data(), got.next.data(),
                           got.State(0), got.State(1), n);
        ASSERT_TRUE(got.next.SameBits(expected.next)) << int(kind) << " " << n << " " << shift;
        ASSERT_TRUE(got.state0.SameBits(expected.state0)) << int(kind);
        ASSERT_TRUE(got.state1.SameBits(expected.state1)) << int(kind);
        ASSERT_TRUE(got.SentinelsStand()) << int(kind) << " " << n << " " << shift;
      }
    }
  }
}

TEST_P(KernelsConformance, FtrlChangesNothingAtARateOfZero) {
  for (const size_t n : {size_t{1}, size_t{70}}) {
    Trained got(OptimizerKind::kFtrl, n, 1), before(OptimizerKind::kFtrl, n, 1);
    const OptimizerStep step = {.lr = 0.0f, .decay = 0.1f, .gradient_scale = 1.0f};
    kernels().optimize(ParamsOf(OptimizerKind::kFtrl), step, got.gradient.data(), got.w.data(),
                       got.next.data(), got.State(0), got.State(1), n);
    EXPECT_TRUE(got.next.SameBits(before.w));
    EXPECT_TRUE(got.state0.SameBits(before.state0));
    EXPECT_TRUE(got.state1.SameBits(before.state1));
  }
}

TEST_P(KernelsConformance, OptimizersMayUpdateWeightsInPlace) {
  for (OptimizerKind kind : kKinds) {
    const size_t n = 531;
    Trained apart(kind, n, 1), in_place(kind, n, 1);
    const OptimizerStep step = {0.1f, 1e-3f, 0.5f, 2};
    const OptimizerParams params = ParamsOf(kind);
    kernels().optimize(params, step, apart.gradient.data(), apart.w.data(), apart.next.data(),
                       apart.State(0), apart.State(1), n);
    kernels().optimize(params, step, in_place.gradient.data(), in_place.w.data(), in_place.w.data(),
                       in_place.State(0), in_place.State(1), n);
    EXPECT_TRUE(in_place.w.SameBits(apart.next)) << int(kind);
    EXPECT_TRUE(in_place.SentinelsStand());
  }
}

TEST_P(KernelsConformance, OptimizersDoNotDependOnHowARangeIsCut) {
  for (OptimizerKind kind : kKinds) {
    const size_t n = 200;
    Trained whole(kind, n, 0), cut(kind, n, 0);
    const OptimizerStep step = {0.1f, 1e-3f, 0.5f, 7};
    const OptimizerParams params = ParamsOf(kind);
    kernels().optimize(params, step, whole.gradient.data(), whole.w.data(), whole.next.data(),
                       whole.State(0), whole.State(1), n);
    for (size_t at = 0; at < n; at += 37) {
      const size_t count = std::min<size_t>(37, n - at);
      float* state0 = cut.State(0) == nullptr ? nullptr : cut.State(0) + at;
      float* state1 = cut.State(1) == nullptr ? nullptr : cut.State(1) + at;
      kernels().optimize(params, step, cut.gradient.data() + at, cut.w.data() + at,
                         cut.next.data() + at, state0, state1, count);
    }
    EXPECT_TRUE(cut.next.SameBits(whole.next)) << int(kind);
  }
}

TEST_P(KernelsConformance, CompensationHasTheBitsOfThePlainLoop) {
  std::mt19937 random(11);
  for (const bool adaptive : {false, true}) {
    const DelayCompensation how = {adaptive ? 2.0f : 0.04f, adaptive, 0.9f};
    for (size_t n : Sizes()) {
      const size_t apart = n % 2;  // else all lie at multiples of 16 bytes
      Guarded sum(n, apart * (n % 3)), w(n, apart), base(n, 2 * apart);
      Guarded square(n, apart * (n % 5)), out(n, 3 * apart);
      Guarded expected_square(n, 0), expected(n, 0);
      for (Guarded* one : {&sum, &w, &base}) one->Fill(&random);
      square.Fill(&random, 0, 1);
      expected_square.CopyFrom(square);
      for (int times = 0; times < 2; ++times) {
        kernels().compensate(how, 0.125f, sum.data(), w.data(), base.data(),
                             adaptive ? square.data() : nullptr, out.data(), n);
        reference::Compensate(how, 0.125f, sum.data(), w.data(), base.data(),
                              expected_square.data(), expected.data(), n);
      }
      ASSERT_TRUE(out.SameBits(expected)) << adaptive << " n=" << n;
      ASSERT_TRUE(square.SameBits(expected_square)) << adaptive << " n=" << n;
      ASSERT_TRUE(out.SentinelsStand() && square.SentinelsStand()) << adaptive << " n=" << n;
    }
  }
}

TEST_P(KernelsConformance, AllFiniteFindsNanAndInfinityAtEveryPlace) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(5);
  for (size_t n : {1, 7, 8, 63, 70, 4096, 4097, 9001}) {
    Guarded x(n, 1);
    x.Fill(&random);
    x.data()[n / 2] = std::numeric_limits<float>::max();
    x.data()[0] = -std::numeric_limits<float>::denorm_min();
    ASSERT_TRUE(kernels().all_finite(x.data(), n)) << n;
    const size_t stride = n > 100 ? 97 : 1;
    for (size_t at = 0; at < n; at += stride) {
      for (float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                        -std::numeric_limits<float>::quiet_NaN()}) {
        const float good = std::exchange(x.data()[at], bad);
        ASSERT_FALSE(kernels().all_finite(x.data(), n)) << n << " at " << at;
        x.data()[at] = good;
      }
    }
  }
  EXPECT_TRUE(kernels().all_finite(nullptr, 0));
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KernelsConformance);

}  // namespace strata::kernels
