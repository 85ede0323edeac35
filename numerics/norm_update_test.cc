#include "numerics/norm_update.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/job/job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata::numerics {
namespace {

// Tensors that chunks cut: a matrix (0 to 9), a bias (10 to 12), statistics (13 to 14).
constexpr uint32_t kElements = 15, kChunkElements = 6;

proto::Layout Layout() {
  proto::Layout layout;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "elements: 15 "
      "segments { name: 'm' shape: 10 offset: 0 lr_multiplier: 1 decay_multiplier: 1 } "
      "segments { name: 'b' shape: 3 offset: 10 lr_multiplier: 2 decay_multiplier: 0 } "
      "segments { name: 's' shape: 2 offset: 13 lr_multiplier: 1 decay_multiplier: 0 "
      "averaged: true }",
      &layout));
  return layout;
}

float Gradient(int step, uint32_t i) { return std::sin(1.0f + 3 * step + i); }

// An update with the optimizer of a job, of Layout() in chunks.
struct World {
  proto::Job job;
  ChunkMap map{kElements, kChunkElements};
  BufferPool pool;
  std::unique_ptr<NormUpdate> update;

  explicit World(const std::string& optimizer, bool marks_absent = false) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "schedule { base_lr: 0.5 } optimizer { " + optimizer + " }", &job));
    FillDefaults(&job);
    update = std::make_unique<NormUpdate>(kernels::Cpu(), pool, job, 100, Layout(), map, false,
                                          marks_absent);
  }

  void Seed() {
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      const ChunkId id(c);
      const auto first = std::make_shared<std::vector<float>>();
      for (uint32_t i = 0; i < map.ElementsOf(id); ++i) {
        first->push_back(1.0f + static_cast<float>(map.OffsetOf(id) + i) / 8);
      }
      update->Seed(id, Bytes(first, reinterpret_cast<const std::byte*>(first->data()),
                             first->size() * sizeof(float)));
    }
  }

  // Makes updates with Gradient, from step `begin` up to but not including `end`.
  // The bias has no gradient in the steps [absent_begin, absent_end).
  void Update(int begin, int end, int absent_begin = 0, int absent_end = 0) {
    for (int step = begin; step < end; ++step) {
      // Chunks in another order than the arena's.
      for (uint32_t c = map.chunks(); c-- > 0;) {
        std::vector<float> mean;
        for (uint32_t i = 0; i < map.ElementsOf(ChunkId(c)); ++i) {
          const uint32_t at = map.OffsetOf(ChunkId(c)) + i;
          const bool is_absent = step >= absent_begin && step < absent_end && at >= 10 && at < 13;
          mean.push_back(is_absent ? -0.0f : Gradient(step, at));
        }
        std::copy(mean.begin(), mean.end(), update->mean(ChunkId(c)).begin());
        EXPECT_EQ(update->Complete(ChunkId(c)), c == 0);
      }
      update->Apply(10);
    }
  }

  std::vector<double> Weights() const {
    std::vector<double> weights;
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      const Bytes& part = update->weights(ChunkId(c));
      weights.insert(weights.end(), part.floats(), part.floats() + part.float_count());
    }
    return weights;
  }
};

// The weights after `steps` updates.
std::vector<double> Updated(const std::string& optimizer, int steps) {
  World world(optimizer);
  world.Seed();
  world.Update(0, steps);
  return world.Weights();
}

double Norm(const std::vector<double>& x, uint32_t begin, uint32_t end) {
  double sum = 0;
  for (uint32_t i = begin; i < end; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

std::vector<double> FirstWeights() {
  std::vector<double> w;
  for (uint32_t i = 0; i < kElements; ++i) w.push_back(1.0 + i / 8.0);
  return w;
}

std::vector<double> GradientOf(int step) {
  std::vector<double> g;
  for (uint32_t i = 0; i < kElements; ++i) g.push_back(Gradient(step, i));
  return g;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

TEST(NormUpdate, LarsScalesEachMatrixByTheRatioOfItsNorms) {
  constexpr double kLr = 0.5, kTrust = 0.25, kDecay = 0.125, kMomentum = 0.5;
  std::vector<double> w = FirstWeights(), v(kElements, 0.0);
  for (int step = 0; step < 3; ++step) {
    const std::vector<double> g = GradientOf(step);
    const double trust =
        kTrust * Norm(w, 0, 10) / (Norm(g, 0, 10) + kDecay * Norm(w, 0, 10) + 1e-8);
    for (uint32_t i = 0; i < 13; ++i) {
      const bool matrix = i < 10;
      v[i] = kMomentum * v[i] + (matrix ? kLr * trust * (g[i] + kDecay * w[i]) : 2 * kLr * g[i]);
      w[i] -= v[i];
    }
    w[13] = g[13];
    w[14] = g[14];
  }
  ExpectNear(Updated("lars { momentum: 0.5 weight_decay: 0.125 coefficient: 0.25 }", 3), w);
}

TEST(NormUpdate, ClipsByTheNormOfAllThatIsTrained) {
  constexpr double kLr = 0.5, kClip = 1.5, kDecay = 0.125;
  std::vector<double> w = FirstWeights();
  for (int step = 0; step < 3; ++step) {
    const std::vector<double> g = GradientOf(step);
    ASSERT_GT(Norm(g, 0, 13), kClip);
    const double factor = kClip / Norm(g, 0, 13);
    for (uint32_t i = 0; i < 13; ++i) {
      w[i] -= i < 10 ? kLr * (factor * g[i] + kDecay * w[i]) : 2 * kLr * factor * g[i];
    }
    w[13] = g[13];
    w[14] = g[14];
  }
  ExpectNear(Updated("sgd { weight_decay: 0.125 } clip_norm: 1.5", 3), w);
}

TEST(NormUpdate, GradientsBelowTheLimitStayAsTheyAre) {
  const std::vector<double> free = Updated("lars {}", 2);
  EXPECT_EQ(Updated("lars {} clip_norm: 100", 2), free);
  EXPECT_NE(Updated("lars {} clip_norm: 0.5", 2), free);
}

TEST(SumOfSquares, IsThatOfEveryElementForAnyLength) {
  std::vector<float> x;
  double expected = 0;
  for (int n = 0; n < 40; ++n) {
    EXPECT_EQ(SumOfSquares(x.data(), x.size()), expected) << n;
    x.push_back(static_cast<float>(n));
    expected += double{1} * n * n;
  }
}

// An image cut between two updates continues with the same bits, also if the rate depends on the
// number of samples so far.
TEST(NormUpdate, GoesOnFromImagesWithTheSameBits) {
  for (const std::string optimizer :
       {"sgd {} clip_norm: 1.5", "momentum_sgd {} clip_norm: 1.5", "adamw {} clip_norm: 1.5",
        "lars { momentum: 0.5 weight_decay: 0.125 coefficient: 0.25 }"}) {
    World undisturbed(optimizer);
    undisturbed.Seed();
    undisturbed.Update(0, 4);
    World resumed(optimizer);
    for (uint32_t c = 0; c < resumed.map.chunks(); ++c) {
      const ChunkId id(c);
      ASSERT_TRUE(resumed.update->Restore(id, undisturbed.update->Image(id)).ok());
    }
    undisturbed.Update(4, 9);
    resumed.Update(4, 9);
    EXPECT_EQ(resumed.Weights(), undisturbed.Weights()) << optimizer;
    EXPECT_EQ(resumed.update->Image(ChunkId(0)).samples, 90u);
  }
}

// The norm is of what is there, and a limit that it does not reach changes nothing.
TEST(NormUpdate, ATensorThatNobodyHasAGradientOfIsAsIfTheUpdateHadNotBeenMade) {
  for (const std::string optimizer : {"momentum_sgd { weight_decay: 0.1 } clip_norm: 1000",
                                      "adamw { weight_decay: 0.1 } clip_norm: 1000", "lars {}"}) {
    World marked(optimizer, true), later(optimizer, true), resumed(optimizer, true);
    marked.Seed();
    marked.Update(0, 2, 0, 2);
    const std::vector<double> before = marked.Weights();
    for (uint32_t i = 10; i < 13; ++i) EXPECT_EQ(before[i], 1.0 + i / 8.0) << optimizer;
    for (uint32_t c = 0; c < resumed.map.chunks(); ++c) {
      const ChunkId id(c);
      ASSERT_TRUE(resumed.update->Restore(id, marked.update->Image(id)).ok());
    }
    marked.Update(2, 4);
    resumed.Update(2, 4);
    EXPECT_EQ(resumed.Weights(), marked.Weights()) << optimizer;
    later.Seed();
    later.Update(2, 4);
    for (uint32_t i = 10; i < 13; ++i) {
      EXPECT_EQ(marked.Weights()[i], later.Weights()[i]) << optimizer << ", " << i;
    }
  }
}

TEST(NormUpdate, ImagesThatDoNotFitAreRefusedByName) {
  World adam("adamw {} clip_norm: 1");
  adam.Seed();
  adam.Update(0, 2);
  World sgd("sgd {} clip_norm: 1"), other("adamw {} clip_norm: 1");
  EXPECT_EQ(sgd.update->Restore(ChunkId(0), adam.update->Image(ChunkId(0))).message(),
            "optimizer state of 2 vectors, the job's optimizer has 0");
  EXPECT_EQ(other.update->Restore(ChunkId(2), adam.update->Image(ChunkId(0))).message(),
            "vectors of 6 elements, the chunk has 3");
  ASSERT_TRUE(other.update->Restore(ChunkId(0), adam.update->Image(ChunkId(0))).ok());
  adam.Update(2, 3);
  EXPECT_EQ(other.update->Restore(ChunkId(1), adam.update->Image(ChunkId(1))).message(),
            "3 updates of 30 samples, other chunks have had 2 of 20");
}

}  // namespace
}  // namespace strata::numerics
