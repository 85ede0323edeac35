#include "compare/virtual_time/problem/task_problem.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"

namespace strata::compare {
namespace {

class TaskRank final : public RankCompute {
 public:
  TaskRank(TaskProcess* process, uint32_t rank, absl::Span<const float> weights,
           uint32_t samples_per_rank)
      : process_(process),
        rank_(rank),
        weights_(weights),
        samples_per_rank_(samples_per_rank),
        gradients_(weights.size()) {}

  void Begin(uint64_t step, ComputePool* /*pool*/) override {
    step_ = step;
    begun_ = true;
  }

  // Computes here, and not on the pool, whose threads would ask in an order of their own.
  absl::StatusOr<StepResult> Finish(ComputePool* /*pool*/) override {
    STRATA_REQUIRE(std::exchange(begun_, false));
    auto result = process_->Compute(rank_, step_, weights_, absl::MakeSpan(gradients_));
    if (!result.ok() || samples_per_rank_ == 0 || result->samples == samples_per_rank_) {
      return result;
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("rank %d: %d samples at step %d, but program.samples_per_rank is %d", rank_,
                        result->samples, step_, samples_per_rank_));
  }

  const float* gradients() const override { return gradients_.data(); }

 private:
  TaskProcess* const process_;
  const uint32_t rank_;
  const absl::Span<const float> weights_;
  const uint32_t samples_per_rank_;  // 0: any number
  std::vector<float> gradients_;
  uint64_t step_ = 0;
  bool begun_ = false;
};

// Values that are there already.
class TaskValues final : public Measuring {
 public:
  explicit TaskValues(std::map<std::string, double> values) : values_(std::move(values)) {}

  absl::Status Finish(ComputePool* /*pool*/, proto::Measurement* measurement) override {
    for (const auto& [name, value] : values_) {
      if (name == "test_accuracy") {
        measurement->set_accuracy(value);
      } else if (name == "test_loss") {
        measurement->set_loss(value);
      } else {
        (*measurement->mutable_values())[name] = value;
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::map<std::string, double> values_;
};

}  // namespace

absl::Status CompleteJob(const proto::TaskDescription& task, proto::Job* job) {
  if (task.optimizer().empty()) return TakeProgramOptimizer(nullptr, false, job);
  const absl::StatusOr<proto::Optimizer> named = ParseOptimizer(task.optimizer());
  if (!named.ok()) return named.status();
  if (named->has_mean()) {
    return absl::InvalidArgumentError("optimizer: mean: a task has no optimizer of its own");
  }
  return TakeProgramOptimizer(&*named, true, job);
}

absl::StatusOr<client::TensorSet> TensorsOf(const proto::TaskDescription& task) {
  client::TensorSet tensors;
  for (int i = task.tensors_size(); i-- > 0;) {
    client::Tensor tensor;
    tensor.name = task.tensors(i).name();
    tensor.shape = {task.tensors(i).shape().begin(), task.tensors(i).shape().end()};
    if (auto added = tensors.Add(std::move(tensor)); !added.ok()) return added.status();
  }
  return tensors;
}

absl::StatusOr<std::unique_ptr<TaskProblem>> TaskProblem::Create(
    const TaskProcess::Options& options) {
  auto process = TaskProcess::Start(options);
  if (!process.ok()) return process.status();
  std::unique_ptr<TaskProblem> problem(new TaskProblem(options.job, *std::move(process)));
  if (absl::Status status = problem->Build(); !status.ok()) return status;
  return problem;
}

absl::Status TaskProblem::Build() {
  if (absl::Status complete = CompleteJob(task(), &job_); !complete.ok()) return complete;
  absl::StatusOr<client::TensorSet> tensors = TensorsOf(task());
  if (!tensors.ok()) return tensors.status();
  tensors_ = *std::move(tensors);
  weights_ = tensors_.size();
  stages_ = {{.first_weight = 0, .weights = weights_, .forward = 1, .backward = 1}};
  const proto::TaskDescription& task = this->task();
  plan_.batch = static_cast<uint32_t>(task.batch());
  plan_.steps_per_epoch = task.steps_per_epoch();
  plan_.total_steps = task.total_steps();
  plan_.evaluate_every = task.evaluate_every() == 0 ? task.total_steps() : task.evaluate_every();
  plan_.report_every = std::max(1U, job_.metrics().every_steps());
  // As live, where a report of what was measured ends the window.
  if (task.evaluate_every() > 0) {
    plan_.report_every = std::min(plan_.report_every, task.evaluate_every());
  }
  return absl::OkStatus();
}

void TaskProblem::FirstWeights(float* arena) const {
  const std::vector<float>& first = process_->first_weights();
  std::copy(first.begin(), first.end(), arena);
}

std::unique_ptr<RankCompute> TaskProblem::MakeRank(uint32_t rank, float* arena) {
  return std::make_unique<TaskRank>(process_.get(), rank,
                                    absl::MakeConstSpan(arena, tensors_.elements()),
                                    job_.program().samples_per_rank());
}

absl::StatusOr<std::unique_ptr<Measuring>> TaskProblem::Measure(float* arena, uint64_t step,
                                                                const RankCompute& /*rank_0*/,
                                                                ComputePool* /*pool*/) {
  std::unique_ptr<Measuring> measuring;
  if (task().evaluate_every() == 0) return measuring;
  auto values = process_->Evaluate(step, absl::MakeConstSpan(arena, tensors_.elements()));
  if (!values.ok()) return values.status();
  measuring = std::make_unique<TaskValues>(*std::move(values));
  return measuring;
}

absl::Status TaskProblem::Try() {
  std::vector<float> weights = process_->first_weights(), gradients(weights.size());
  process_->Compute(0, 0, weights, absl::MakeSpan(gradients)).IgnoreError();
  if (!process_->health().ok()) return process_->health();
  if (task().evaluate_every() == 0) return absl::OkStatus();
  process_->Evaluate(0, weights).IgnoreError();
  return process_->health();
}

}  // namespace strata::compare
