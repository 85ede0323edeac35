#include "rows/row_update.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "rows/lanes.h"

namespace strata::rows {
namespace {

template <typename Lanes>
inline Lanes Gradient(const RowUpdate::Constants& with, Lanes sum, Lanes w) {
  return with.scale * sum + with.decay * w;
}

// Returns the sum of the squared gradients: four sums of every fourth column, added as a tree.
inline float Squares(uint32_t columns, const RowUpdate::Constants& with, const float* sum,
                     const float* w) {
  Four sums = {};
  uint32_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) {
    const Four g = Gradient(with, Load<Four>(sum + column), Load<Four>(w + column));
    sums += g * g;
  }
  for (uint32_t lane = 0; column < columns; ++column, ++lane) {
    const float g = Gradient(with, sum[column], w[column]);
    sums[lane] += g * g;
  }
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

}  // namespace

absl::Status RowOptimizer::Validate() const {
  struct Field {
    const char* name;
    float value;
    bool may_be_zero = true;
    float below = INFINITY;
  };
  std::vector<Field> fields = {{"weight_decay", weight_decay}};
  switch (kind) {
    case RowOptimizerKind::kSgd:
      break;
    case RowOptimizerKind::kAdagrad:
    case RowOptimizerKind::kRowwiseAdagrad:
      fields.push_back({"epsilon", epsilon, false});
      fields.push_back({"initial_accumulator", initial_accumulator});
      break;
    case RowOptimizerKind::kAdam:
      fields.push_back({"beta1", beta1, true, 1});
      fields.push_back({"beta2", beta2, true, 1});
      fields.push_back({"epsilon", epsilon, false});
      break;
    case RowOptimizerKind::kFtrl:
      fields.push_back({"l1", l1});
      fields.push_back({"l2", l2});
      fields.push_back({"beta", beta, false});
      fields.push_back({"initial_accumulator", initial_accumulator});
      break;
  }
  for (const Field& field : fields) {
    const bool is_enough = field.may_be_zero ? field.value >= 0 : field.value > 0;
    if (is_enough && field.value < field.below) continue;
    const std::string end =
        std::isinf(field.below) ? " and finite" : absl::StrFormat(" and below %g", field.below);
    return absl::InvalidArgumentError(
        absl::StrFormat("optimizer: %s: %g is not %s 0%s", field.name, field.value,
                        field.may_be_zero ? "at least" : "above", end));
  }
  return absl::OkStatus();
}

uint32_t StateColumns(RowOptimizerKind kind, uint32_t columns) {
  switch (kind) {
    case RowOptimizerKind::kSgd:
      return 0;
    case RowOptimizerKind::kAdagrad:
      return columns;
    case RowOptimizerKind::kRowwiseAdagrad:
      return 1;
    case RowOptimizerKind::kAdam:
    case RowOptimizerKind::kFtrl:
      return 2 * columns;
  }
  return 0;
}

RowUpdate::RowUpdate(const RowOptimizer& how, const RowStep& step, uint32_t columns)
    : how_(how),
      columns_(columns),
      rule_(RuleOf(how.kind)),
      with_{.scale = step.gradient_scale, .decay = how.weight_decay, .lr = step.lr} {
  if (how.kind != RowOptimizerKind::kAdam) return;
  const double t = static_cast<double>(step.number);
  const double correct1 = 1.0 - std::pow(static_cast<double>(how.beta1), t);
  const double correct2 = 1.0 - std::pow(static_cast<double>(how.beta2), t);
  with_.lr = static_cast<float>(static_cast<double>(step.lr) * std::sqrt(correct2) / correct1);
}

RowUpdate::Rule RowUpdate::RuleOf(RowOptimizerKind kind) {
  switch (kind) {
    case RowOptimizerKind::kSgd:
      return Sgd;
    case RowOptimizerKind::kAdagrad:
      return Adagrad;
    case RowOptimizerKind::kRowwiseAdagrad:
      return RowwiseAdagrad;
    case RowOptimizerKind::kAdam:
      return Adam;
    case RowOptimizerKind::kFtrl:
      return Ftrl;
  }
  return Sgd;
}

void RowUpdate::Begin(float* state) const {
  const uint32_t size = StateColumns(how_.kind, columns_);
  switch (how_.kind) {
    case RowOptimizerKind::kSgd:
    case RowOptimizerKind::kAdam:
      std::fill_n(state, size, 0.0f);
      return;
    case RowOptimizerKind::kAdagrad:
    case RowOptimizerKind::kRowwiseAdagrad:
      std::fill_n(state, size, how_.initial_accumulator);
      return;
    case RowOptimizerKind::kFtrl:  // z, then the sums of squares
      std::fill_n(state, columns_, 0.0f);
      std::fill_n(state + columns_, columns_, how_.initial_accumulator);
      return;
  }
}

void RowUpdate::Sgd(const RowUpdate& update, const float* sum, float* weights, float*) {
  const Constants with = update.with_;
  ForColumns(update.columns_, [&](auto lanes, uint32_t i) {
    using Lanes = decltype(lanes);
    const Lanes w = Load<Lanes>(weights + i);
    Save(w - with.lr * Gradient(with, Load<Lanes>(sum + i), w), weights + i);
  });
}

void RowUpdate::Adagrad(const RowUpdate& update, const float* sum, float* weights, float* state) {
  const Constants with = update.with_;
  const float epsilon = update.how_.epsilon;
  ForColumns(update.columns_, [&](auto lanes, uint32_t i) {
    using Lanes = decltype(lanes);
    const Lanes w = Load<Lanes>(weights + i);
    const Lanes g = Gradient(with, Load<Lanes>(sum + i), w);
    const Lanes squares = Load<Lanes>(state + i) + g * g;
    Save(squares, state + i);
    Save(w - with.lr * (g / (Root(squares) + epsilon)), weights + i);
  });
}

void RowUpdate::RowwiseAdagrad(const RowUpdate& update, const float* sum, float* weights,
                               float* state) {
  const Constants with = update.with_;
  state[0] += Squares(update.columns_, with, sum, weights) / static_cast<float>(update.columns_);
  const float rate = with.lr / (std::sqrt(state[0]) + update.how_.epsilon);
  ForColumns(update.columns_, [&](auto lanes, uint32_t i) {
    using Lanes = decltype(lanes);
    const Lanes w = Load<Lanes>(weights + i);
    Save(w - rate * Gradient(with, Load<Lanes>(sum + i), w), weights + i);
  });
}

void RowUpdate::Adam(const RowUpdate& update, const float* sum, float* weights, float* state) {
  const Constants with = update.with_;
  float* const moment1 = state;
  float* const moment2 = state + update.columns_;
  const float share1 = 1.0f - update.how_.beta1, share2 = 1.0f - update.how_.beta2;
  const float epsilon = update.how_.epsilon;
  ForColumns(update.columns_, [&](auto lanes, uint32_t i) {
    using Lanes = decltype(lanes);
    const Lanes w = Load<Lanes>(weights + i);
    const Lanes g = Gradient(with, Load<Lanes>(sum + i), w);
    Lanes m = Load<Lanes>(moment1 + i), v = Load<Lanes>(moment2 + i);
    m += (g - m) * share1;
    v += (g * g - v) * share2;
    Save(m, moment1 + i);
    Save(v, moment2 + i);
    Save(w - with.lr * (m / (Root(v) + epsilon)), weights + i);
  });
}

// proto/job.proto has the formula, with `ftrl`.
void RowUpdate::Ftrl(const RowUpdate& update, const float* sum, float* weights, float* state) {
  const Constants& with = update.with_;
  const RowOptimizer& how = update.how_;
  constexpr float kRateMin = 1e-30f;
  if (with.lr < kRateMin) return;
  float* const z = state;
  float* const n = state + update.columns_;
  for (uint32_t i = 0; i < update.columns_; ++i) {
    const float w = weights[i];
    const float h = Gradient(with, sum[i], w);
    const float squares = n[i] + h * h;
    const float root_before = std::sqrt(n[i]), root = std::sqrt(squares);
    const auto slope_of = [&](float of_squares) {
      return (how.beta + of_squares) / with.lr + how.l2;
    };
    if (w != 0) z[i] = -(w * slope_of(root_before)) - std::copysign(how.l1, w);
    z[i] += h - (root - root_before) / with.lr * w;
    n[i] = squares;
    weights[i] =
        std::fabs(z[i]) <= how.l1 ? 0.0f : -((z[i] - std::copysign(how.l1, z[i])) / slope_of(root));
  }
}

}  // namespace strata::rows
