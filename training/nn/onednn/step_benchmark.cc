// Milliseconds of one training step (forward, loss, backward; no exchange, no optimizer) of models
// of the zoo with one compute thread, beside what the same multiplications would take at the speed
// of one large matrix product. `step_benchmark [--tiny] [--batch N] [MODEL...]`; default: batch 1,
// the models for ImageNet and resnet20.

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "common/random.h"
#include "oneapi/dnnl/dnnl.h"
#include "training/nn/bound_network.h"
#include "training/nn/network/zoo.h"

namespace strata::training {
namespace {

double Seconds(absl::Time begin) { return absl::ToDoubleSeconds(absl::Now() - begin); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Multiplications per second of C = A B for square matrices.
double MatrixProductSpeed(int64_t size, int repetitions) {
  const std::vector<float> a(size * size, 0.5f), b(size * size, 0.25f);
  std::vector<float> c(size * size);
  std::vector<double> speeds;
  for (int i = 0; i < repetitions; ++i) {
    const absl::Time begin = absl::Now();
    const auto status = dnnl_sgemm('N', 'N', size, size, size, 1.0f, a.data(), size, b.data(), size,
                                   0.0f, c.data(), size);
    if (status != dnnl_success || c[0] != 0.125f * static_cast<float>(size)) return 0;
    speeds.push_back(static_cast<double>(size) * size * size / Seconds(begin));
  }
  return Median(speeds);
}

// Multiplications of a forward pass, per sample; convolutions and inner products only.
double Multiplications(const ModelSpec& model) {
  const auto shapes = FollowShapes(model).value();
  double sum = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    double weights = 0;  // that meet each place of the output
    if (std::holds_alternative<Convolution>(model.layers[i].kind)) {
      weights = static_cast<double>(shapes[i].output.height) * shapes[i].output.width;
    } else if (std::holds_alternative<InnerProduct>(model.layers[i].kind)) {
      weights = 1;
    }
    if (weights > 0) sum += weights * static_cast<double>(shapes[i].weights[0].Elements());
  }
  return sum;
}

// Returns false where a loss is not finite: then the figure is worth nothing.
bool Measure(const std::string& name, uint32_t batch, int repetitions, double speed) {
  const Shape input = name == "resnet20" ? Shape{3, 32, 32} : Shape{3, 224, 224};
  const auto made = MakeModel(name, input, name == "resnet20" ? 10 : 1000);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", std::string(made.status().message()).c_str());
    return false;
  }
  BoundNetwork bound(*made, {.batch = batch});
  std::vector<float> images(batch * input.Elements());
  for (size_t i = 0; i < images.size(); ++i) images[i] = 2 * RandomUniform(7, i) - 1;
  const std::vector<uint16_t> labels(batch, 3);
  std::vector<double> forward, backward;
  double loss = 0;
  for (int i = 0; i <= repetitions; ++i) {
    const absl::Time begin = absl::Now();
    loss = bound.Forward(images, labels, i);
    const double half = Seconds(begin);
    if (!std::isfinite(loss) || loss < 0 || !bound.Backward().ok()) return false;
    if (i == 0) continue;  // the first touches memory
    forward.push_back(half);
    backward.push_back(Seconds(begin) - half);
  }
  const double step = Median(forward) + Median(backward);
  // Backward has two products for each of forward, for the source and for the weights.
  const double bound_s = 3 * batch * Multiplications(*made) / speed;
  std::printf(
      "%-9s batch %u, 1 thread: %8.1f ms a step (forward %.1f, backward %.1f; median of %d); as "
      "one "
      "matrix product %.1f ms: %.2f of its speed\n",
      name.c_str(), batch, 1e3 * step, 1e3 * Median(forward), 1e3 * Median(backward), repetitions,
      1e3 * bound_s, bound_s / step);
  return true;
}

int Main(std::vector<std::string> arguments) {
  uint32_t batch = 1;
  bool is_tiny = false;
  std::vector<std::string> models;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--tiny") {
      is_tiny = true;
    } else if (arguments[i] == "--batch" && i + 1 < arguments.size()) {
      if (!absl::SimpleAtoi(arguments[++i], &batch) || batch == 0) return 2;
    } else {
      models.push_back(arguments[i]);
    }
  }
  omp_set_num_threads(1);
  if (models.empty()) models = {"resnet20", "alexnet", "vgg16", "googlenet", "resnet50"};
  if (is_tiny) models = {"resnet20", "googlenet"};
  const double speed = MatrixProductSpeed(is_tiny ? 256 : 1536, is_tiny ? 3 : 9);
  std::printf("matrix product: %.1f GFLOP/s\n", 2e-9 * speed);
  bool good = speed > 0;
  for (const std::string& model : models) good &= Measure(model, batch, is_tiny ? 2 : 9, speed);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace strata::training

int main(int argc, char** argv) {
  return strata::training::Main(std::vector<std::string>(argv + 1, argv + argc));
}
