#include "compare/virtual_time/virtual_runner.h"

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compare/virtual_time/job_hosts.h"
#include "compare/virtual_time/problem/task_problem.h"
#include "compare/virtual_time/problem/zoo_problem.h"
#include "compare/virtual_time/virtual_run.h"

namespace strata::compare {
namespace {

class VirtualRunner final : public Runner {
 public:
  VirtualRunner(ClusterFile cluster, uint32_t threads)
      : cluster_(std::move(cluster)), threads_(threads) {}

  absl::Status Check(const RunPlan& plan) override;
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) override;
  void Stop() override { stop_ = true; }

 private:
  // Reads the job's data, unless the last job had the same.
  absl::Status Load(const proto::Job& job);
  // Returns what the script of a job says of its task, once both of its functions have run with its
  // first weights. A script is asked once for all modes and seeds.
  const absl::StatusOr<proto::TaskDescription>& Describe(const proto::Job& job);
  TaskProcess::Options TaskOptions(const proto::Job& job) { return {.job = job, .stop = &stop_}; }
  absl::StatusOr<std::unique_ptr<Problem>> MakeProblem(const proto::Job& job);

  const ClusterFile cluster_;
  const uint32_t threads_;
  std::atomic<bool> stop_ = false;
  std::string loaded_;  // what `data_` is
  std::shared_ptr<const TrainingData> data_;
  std::map<std::string, absl::StatusOr<proto::TaskDescription>> tasks_;  // by program and ranks
};

const absl::StatusOr<proto::TaskDescription>& VirtualRunner::Describe(const proto::Job& job) {
  const std::string program = absl::StrCat(job.program().SerializeAsString(), " ", job.ranks());
  const auto [known, is_new] = tasks_.try_emplace(program);
  if (!is_new) return known->second;
  const auto problem = TaskProblem::Create(TaskOptions(job));
  const absl::Status status = problem.ok() ? (*problem)->Try() : problem.status();
  if (status.ok()) {
    known->second = (*problem)->task();
  } else {
    known->second = status;
  }
  return known->second;
}

// What shows only with a model of the zoo at hand, Run finds.
absl::Status VirtualRunner::Check(const RunPlan& plan) {
  proto::Job job = plan.job;
  if (job.exchange() != proto::Job::PARAMETER_SERVER && job.exchange() != proto::Job::RING) {
    return absl::InvalidArgumentError(
        "exchange: virtual time knows PARAMETER_SERVER and RING only");
  }
  if (job.tensorboard()) {
    return absl::InvalidArgumentError(
        "tensorboard: in virtual time no worker writes events; the report has the curves");
  }
  proto::Layout layout;  // of a model of the zoo any: of a job whose nodes have an element each
  layout.set_elements(uint64_t{1} << 20);
  if (job.has_program()) {
    const absl::StatusOr<proto::TaskDescription>& task = Describe(job);
    if (!task.ok()) return absl::InvalidArgumentError(std::string(task.status().message()));
    if (absl::Status complete = CompleteJob(*task, &job); !complete.ok()) return complete;
    const absl::StatusOr<client::TensorSet> tensors = TensorsOf(*task);
    if (!tensors.ok()) return tensors.status();
    layout = tensors->Layout();
  }
  const absl::Status placed = PlaceJob(job, cluster_.cluster, layout, 1).status();
  if (placed.ok()) return placed;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(placed.message()), " (", cluster_.cluster.name(), ")"));
}

absl::Status VirtualRunner::Load(const proto::Job& job) {
  std::string wanted = job.data().SerializeAsString();
  if (job.data().has_synthetic() || job.data().has_synthetic_imagenet()) {
    absl::StrAppend(&wanted, " seed ", job.seed());
  }
  if (data_ != nullptr && wanted == loaded_) return absl::OkStatus();
  data_ = nullptr;
  absl::StatusOr<std::shared_ptr<const TrainingData>> data = LoadTrainingData(job);
  if (!data.ok()) return data.status();
  data_ = *std::move(data);
  loaded_ = std::move(wanted);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Problem>> VirtualRunner::MakeProblem(const proto::Job& job) {
  // Each run has a process of its own: what a script remembers of one is no part of the next.
  if (job.has_program()) return TaskProblem::Create(TaskOptions(job));
  if (absl::Status status = Load(job); !status.ok()) return status;
  return ZooProblem::Create(job, data_);
}

absl::StatusOr<proto::RunRecord> VirtualRunner::Run(const RunPlan& plan,
                                                    const OnProgress& progress) {
  absl::StatusOr<std::unique_ptr<Problem>> problem = MakeProblem(plan.job);
  if (!problem.ok()) return problem.status();
  VirtualRunOptions options;
  options.threads = threads_;
  options.stop = &stop_;
  options.on_progress = progress;
  absl::StatusOr<VirtualOutcome> outcome =
      RunInVirtualTime(plan, cluster_, *std::move(problem), options);
  if (!outcome.ok()) return outcome.status();
  return std::move(outcome->record);
}

}  // namespace

std::unique_ptr<Runner> CreateVirtualRunner(ClusterFile cluster, uint32_t threads) {
  return std::make_unique<VirtualRunner>(std::move(cluster), threads);
}

}  // namespace strata::compare
