// Each layer against plain scalar loops and against finite differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/random.h"
#include "training/nn/bound_network.h"
#include "training/nn/reference_network.h"

namespace strata::training {
namespace {

class LayerTest : public ::testing::TestWithParam<LayerCase> {
 protected:
  LayerTest() {
    model_ = {GetParam().name, GetParam().input, GetParam().layers};
    images_.resize(GetParam().batch * model_.input.Elements());
    for (size_t i = 0; i < images_.size(); ++i) images_[i] = Noise(1, i);
    for (uint32_t i = 0; i < GetParam().batch; ++i) labels_.push_back(i % 4);
  }
  static float Noise(uint64_t key, uint64_t i) { return 2 * RandomUniform(key, i) - 1; }

  Network::Options TrainOptions() const {
    return {.batch = GetParam().batch, .input_gradient = true};
  }
  // Weights that no symmetry hides behind: also biases and scales vary.
  void Scatter(std::vector<std::vector<float>>* weights) const {
    for (size_t t = 0; t < weights->size(); ++t) {
      for (size_t i = 0; i < (*weights)[t].size(); ++i) (*weights)[t][i] += 0.3f * Noise(50 + t, i);
    }
  }

  ModelSpec model_;
  std::vector<float> images_;
  std::vector<uint16_t> labels_;
};

template <typename A, typename B>
void ExpectClose(const A& got, const B& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0;
  for (auto value : want) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 2e-5 * largest + 5e-6) << what << " element " << i;
  }
}

TEST_P(LayerTest, AgreesWithScalarLoops) {
  BoundNetwork bound(model_, TrainOptions());
  Scatter(&bound.weights);
  ReferenceNetwork<double> reference(model_, GetParam().batch);
  for (size_t t = 0; t < bound.weights.size(); ++t) {
    reference.weights[t].assign(bound.weights[t].begin(), bound.weights[t].end());
  }
  const std::vector<float> images_before = images_;
  for (int step = 0; step < 2; ++step) {  // the second pass meets buffers that are not fresh
    const auto& logits = reference.Forward(std::vector<double>(images_.begin(), images_.end()));
    const double loss = bound.Forward(images_, labels_, step);
    ExpectClose(bound.network->Logits(), logits, "logits");
    EXPECT_NEAR(loss, reference.Loss(absl::MakeConstSpan(labels_)), 1e-4);
    ASSERT_EQ(bound.Backward(), absl::OkStatus());
    ExpectClose(bound.network->InputGradient(), reference.Backward(), "image gradient");
    for (size_t t = 0; t < bound.weights.size(); ++t) {
      ExpectClose(bound.gradients[t], reference.gradients[t], ListWeights(model_)[t].name);
    }
    for (size_t t = 0; t < bound.buffers.size(); ++t) {
      ExpectClose(bound.buffers[t], reference.buffers[t], ListBuffers(model_)[t].name);
    }
  }
  EXPECT_EQ(images_, images_before);
}

// Compares gradient[i] with (loss(x + step) - loss(x - step)) / 2 step for some 40 elements.
template <typename Real, typename LossOf>
void CheckDifferences(std::vector<Real>* values, absl::Span<const float> gradient, Real step,
                      double tolerance, const std::string& what, LossOf loss_of) {
  ASSERT_EQ(values->size(), gradient.size()) << what;
  const size_t stride = std::max<size_t>(1, values->size() / 40);
  for (size_t i = 0; i < values->size(); i += stride) {
    const Real before = (*values)[i];
    (*values)[i] = before + step;
    const double up = loss_of();
    (*values)[i] = before - step;
    const double down = loss_of();
    (*values)[i] = before;
    EXPECT_NEAR((up - down) / (2 * step), gradient[i], tolerance * (1 + std::abs(gradient[i])))
        << what << " element " << i;
  }
}

// The differences are those of the scalar loops in double precision (which the test above finds
// equal to the layers): fp32 would force steps so long that they cross kinks of ReLU and max
// pooling.
TEST_P(LayerTest, GradientsAgreeWithFiniteDifferences) {
  BoundNetwork bound(model_, TrainOptions());
  Scatter(&bound.weights);
  ReferenceNetwork<double> reference(model_, GetParam().batch);
  for (size_t t = 0; t < bound.weights.size(); ++t) {
    reference.weights[t].assign(bound.weights[t].begin(), bound.weights[t].end());
  }
  bound.Forward(images_, labels_);
  ASSERT_EQ(bound.Backward(), absl::OkStatus());
  std::vector<double> images(images_.begin(), images_.end());
  const auto loss_of = [&] {
    reference.Forward(absl::MakeConstSpan(images));
    return reference.Loss(absl::MakeConstSpan(labels_));
  };
  for (size_t t = 0; t < reference.weights.size(); ++t) {
    CheckDifferences(&reference.weights[t], bound.gradients[t], 1e-6, 2e-5,
                     ListWeights(model_)[t].name, loss_of);
  }
  CheckDifferences(&images, bound.network->InputGradient(), 1e-6, 2e-5, "image", loss_of);
}

std::string Name(const ::testing::TestParamInfo<LayerCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Simple, LayerTest, ::testing::ValuesIn(SimpleLayerCases()), Name);
INSTANTIATE_TEST_SUITE_P(Shortcut, LayerTest, ::testing::ValuesIn(ShortcutCases()), Name);
INSTANTIATE_TEST_SUITE_P(Concat, LayerTest, ::testing::ValuesIn(ConcatCases()), Name);
INSTANTIATE_TEST_SUITE_P(Join, LayerTest, ::testing::ValuesIn(JoinCases()), Name);

TEST(Dropout, DropsItsShareScalesTheRestAndPassesTheSameGradientsBack) {
  // Weight 1 on the diagonal of `last` shows what dropout lets through.
  ModelSpec model{"dropout",
                  {100, 1, 1},
                  {{"flatten", Flatten{}}, {"a", Dropout{0.25f}}, {"last", InnerProduct{100}}}};
  BoundNetwork bound(model, {.batch = 40, .input_gradient = true});
  std::fill(bound.weights[0].begin(), bound.weights[0].end(), 0.0f);
  for (size_t i = 0; i < 100; ++i) bound.weights[0][i * 100 + i] = 1.0f;
  const std::vector<float> ones(4000, 1.0f);
  const std::vector<uint16_t> labels(40, 3);
  bound.Forward(ones, labels, 7);
  const auto logits = bound.network->Logits();
  const std::vector<float> seen(logits.begin(), logits.end());
  EXPECT_NEAR(std::count(seen.begin(), seen.end(), 0.0f), 1000, 90);
  ASSERT_EQ(bound.Backward(), absl::OkStatus());
  const auto gradient = bound.network->InputGradient();
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != 0.0f) {
      EXPECT_FLOAT_EQ(seen[i], 1.0f / 0.75f);
    }
    EXPECT_EQ(gradient[i] == 0.0f, seen[i] == 0.0f) << i;
  }
  const std::vector<float> weight_gradient = bound.gradients[0];
  CheckDifferences(&bound.weights[0], weight_gradient, 0.02f, 1e-2, "last.weight",
                   [&] { return bound.Forward(ones, labels, 7); });
}

TEST(Dropout, DrawsFromSeedRankAndStep) {
  ModelSpec model{"dropout",
                  {100, 1, 1},
                  {{"flatten", Flatten{}}, {"a", Dropout{0.5f}}, {"last", InnerProduct{4}}}};
  const std::vector<float> ones(100, 1.0f);
  const auto loss = [&](uint64_t seed, uint32_t rank, uint64_t step) {
    return BoundNetwork(model, {.batch = 1, .seed = seed, .rank = rank}).Forward(ones, {1}, step);
  };
  EXPECT_EQ(loss(1, 0, 0), loss(1, 0, 0));
  EXPECT_NE(loss(1, 0, 0), loss(2, 0, 0));
  EXPECT_NE(loss(1, 0, 0), loss(1, 1, 0));
  EXPECT_NE(loss(1, 0, 0), loss(1, 0, 1));
}

}  // namespace
}  // namespace strata::training
