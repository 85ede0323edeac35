#ifndef STRATA_ROWS_ROW_UPDATE_H_
#define STRATA_ROWS_ROW_UPDATE_H_

#include <cstdint>

#include "absl/status/status.h"

namespace strata::rows {

enum class RowOptimizerKind {
  kSgd,
  kAdagrad,         // Duchi, Hazan & Singer 2011; epsilon outside the root, as in PyTorch
  kRowwiseAdagrad,  // one accumulator a row: the sum of mean squared gradients, as in FBGEMM
  kAdam,            // lazy: moments change only in rows that are pushed, as in PyTorch's SparseAdam
  kFtrl,            // McMahan et al. 2013, "Ad Click Prediction"; formula: proto/job.proto
};

// How rows are updated. A kind reads only the fields that name it.
struct RowOptimizer {
  RowOptimizerKind kind = RowOptimizerKind::kSgd;
  // Times the weight, added to the gradient of rows that are pushed. Other rows do not decay.
  float weight_decay = 0.0f;           // all kinds
  float epsilon = 1e-10f;              // kAdagrad, kRowwiseAdagrad, kAdam; above 0
  float initial_accumulator = 0.0f;    // kAdagrad, kRowwiseAdagrad, kFtrl
  float beta1 = 0.9f, beta2 = 0.999f;  // kAdam; below 1
  float l1 = 0.0f, l2 = 0.0f;          // kFtrl
  float beta = 1.0f;                   // kFtrl; above 0

  // Errors: InvalidArgument naming the field. All fields are finite and at least 0.
  absl::Status Validate() const;
};

// Returns the number of fp32 values of optimizer state that a row of `columns` weights has.
uint32_t StateColumns(RowOptimizerKind kind, uint32_t columns);

// What all rows of a step have in common.
struct RowStep {
  float lr = 0.0f;
  float gradient_scale = 1.0f;  // the gradient is this times the sum
  uint64_t number = 1;          // the table's step, from 1: Adam's t
};

// Updates single rows. Products and sums are rounded one by one, in an order that depends on the
// number of columns alone, so the bits are the same on every host.
class RowUpdate {
 public:
  RowUpdate(const RowOptimizer& how, const RowStep& step, uint32_t columns);

  // Writes the state of a row that has not been pushed yet.
  void Begin(float* state) const;
  // The arrays do not overlap.
  void operator()(const float* gradient_sum, float* weights, float* state) const {
    rule_(*this, gradient_sum, weights, state);
  }

  struct Constants {
    float scale, decay;  // of the gradient
    float lr;            // Adam's has both bias corrections
  };

 private:
  using Rule = void (*)(const RowUpdate& update, const float* sum, float* weights, float* state);
  static Rule RuleOf(RowOptimizerKind kind);
  static void Sgd(const RowUpdate& update, const float* sum, float* weights, float* state);
  static void Adagrad(const RowUpdate& update, const float* sum, float* weights, float* state);
  static void RowwiseAdagrad(const RowUpdate& update, const float* sum, float* weights,
                             float* state);
  static void Adam(const RowUpdate& update, const float* sum, float* weights, float* state);
  static void Ftrl(const RowUpdate& update, const float* sum, float* weights, float* state);

  const RowOptimizer how_;
  const uint32_t columns_;
  const Rule rule_;
  Constants with_;
};

}  // namespace strata::rows

#endif  // STRATA_ROWS_ROW_UPDATE_H_
