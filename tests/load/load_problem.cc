#include "tests/load/load_problem.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "common/job/job.h"

namespace strata::tests {
namespace {

constexpr double kRate = 0.5;

double GradientAt(uint32_t node, uint64_t step, size_t element) {
  return static_cast<double>((node * 7 + step * 5 + element * 3) % 16) - 8;
}

double FirstWeightAt(size_t element) { return static_cast<double>(element % 64) / 64; }

bool IsPowerOfTwo(uint32_t number) { return (number & (number - 1)) == 0; }

}  // namespace

proto::Job LoadProblem::Job() const {
  proto::Job job;
  job.set_name("load");
  job.mutable_program()->set_path("load");  // which no daemon starts
  job.mutable_optimizer()->mutable_sgd();
  job.mutable_schedule()->set_base_lr(kRate);
  job.mutable_consistency()->mutable_sync();
  job.set_ranks(nodes);
  job.set_ranks_per_node(1);
  job.set_epochs(1);
  job.set_chunk_elements(chunk_elements);
  job.mutable_metrics()->set_every_steps(10);
  FillDefaults(&job);
  return job;
}

proto::NodeReady LoadProblem::Ready(uint32_t job_id) const {
  proto::NodeReady ready;
  ready.set_job_id(job_id);
  ready.set_samples_per_epoch(nodes * steps);
  ready.set_total_steps(steps);
  ready.set_run_dir("/nowhere");
  ready.mutable_layout()->set_elements(elements);
  proto::Segment* segment = ready.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(elements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return ready;
}

void LoadProblem::FirstWeights(absl::Span<float> weights) const {
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(FirstWeightAt(i));
}

void LoadProblem::Gradients(uint32_t node, uint64_t step, absl::Span<float> gradients) const {
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = static_cast<float>(GradientAt(node, step, i));
  }
}

std::string LoadProblem::Check(absl::Span<const float> weights) const {
  if (weights.size() != elements) return "another number of weights";
  const double tolerance = IsPowerOfTwo(nodes) ? 0 : 1e-4;
  for (size_t i = 0; i < weights.size(); ++i) {
    double expected = FirstWeightAt(i);
    for (uint64_t step = 0; step < steps; ++step) {
      double sum = 0;
      for (uint32_t node = 0; node < nodes; ++node) sum += GradientAt(node, step, i);
      expected -= kRate * sum / nodes;
    }
    if (std::abs(weights[i] - expected) <= tolerance) continue;
    return absl::StrFormat("weight %d is %.9g, not %.9g", i, weights[i], expected);
  }
  return "";
}

}  // namespace strata::tests
