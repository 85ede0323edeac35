// Trains y = w.x + b with an optimizer of the ranks' own: the job's is `mean`, so what comes back
// in place of weights is the mean gradient of all ranks. Every rank runs this program; the worker
// daemon passes the launch file as the last argument.
#include <strata_client.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>

namespace {

constexpr int kInputs = 8;
constexpr uint32_t kBatch = 32;  // as the job says
constexpr int kSteps = 300;

// w and then b, which are to become -3, -2, ..., 4 and 5.
using Parameters = std::array<float, kInputs + 1>;
constexpr Parameters kTrue = {-3, -2, -1, 0, 1, 2, 3, 4, 5};

void Check(strata_code code) {
  if (code != STRATA_OK) throw std::runtime_error(strata_error_text());
}

// Momentum SGD, on every rank the same.
class Optimizer {
 public:
  void Step(const Parameters& gradient, Parameters* parameters) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      velocity_[i] = 0.5f * velocity_[i] + gradient[i];
      (*parameters)[i] -= 0.1f * velocity_[i];
    }
  }

 private:
  Parameters velocity_ = {};
};

// Returns the gradient, summed over a batch of this rank's.
Parameters Gradient(const Parameters& parameters, std::mt19937* random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Parameters sum = {};
  for (uint32_t sample = 0; sample < kBatch; ++sample) {
    Parameters x;
    for (int i = 0; i < kInputs; ++i) x[i] = uniform(*random);
    x[kInputs] = 1;
    float error = 0;
    for (size_t i = 0; i < x.size(); ++i) error += x[i] * (parameters[i] - kTrue[i]);
    for (size_t i = 0; i < x.size(); ++i) sum[i] += error * x[i];
  }
  return sum;
}

int Train(const char* launch) {
  strata_client* raw = nullptr;
  Check(strata_connect(launch, &raw));
  const std::unique_ptr<strata_client, void (*)(strata_client*)> client(raw, strata_close);
  const uint64_t elements = Parameters().size();
  strata_tensor tensor = {};
  tensor.size = sizeof tensor;
  tensor.name = "parameters";
  tensor.shape = &elements;
  tensor.dimensions = 1;
  int32_t index = 0;
  Check(strata_register(raw, &tensor, &index));
  Check(strata_allocate(raw));
  // Every rank begins anywhere; all take what rank 0 has drawn.
  std::mt19937 random(strata_rank(raw) + 1);
  std::normal_distribution<float> normal;
  for (uint64_t i = 0; i < elements; ++i) strata_weights(raw, index)[i] = normal(random);
  strata_facts facts = {};
  facts.size = sizeof facts;
  facts.total_steps = kSteps;
  facts.takes_first_weights = 1;
  Check(strata_start(raw, &facts));
  Parameters parameters, mean;
  Check(strata_read_weights(raw, index, parameters.data(), STRATA_FLOAT32));
  Optimizer optimizer;
  for (int step = 0; step < kSteps; ++step) {
    const Parameters sum = Gradient(parameters, &random);
    Check(strata_begin_step(raw, kBatch));
    Check(strata_publish_values(raw, index, sum.data(), STRATA_FLOAT32, 1));
    Check(strata_finish_step(raw));
    Check(strata_read_weights(raw, index, mean.data(), STRATA_FLOAT32));
    optimizer.Step(mean, &parameters);
  }
  Check(strata_finish(raw));
  float worst = 0;
  for (size_t i = 0; i < kTrue.size(); ++i) {
    worst = std::max(worst, std::abs(parameters[i] - kTrue[i]));
  }
  // All ranks print the same: they have the same parameters, to the last bit.
  std::printf("largest error of a parameter: %a\n", static_cast<double>(worst));
  return worst < 0.01f ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Train(argc > 1 ? argv[argc - 1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_optimizer: %s\n", error.what());
    return 1;
  }
}
