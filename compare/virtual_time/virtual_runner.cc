#include "compare/virtual_time/virtual_runner.h"

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compare/virtual_time/job_hosts.h"
#include "compare/virtual_time/problem.h"
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

  const ClusterFile cluster_;
  const uint32_t threads_;
  std::atomic<bool> stop_ = false;
  std::string loaded_;  // what `data_` is
  std::shared_ptr<const TrainingData> data_;
};

// What shows only with the model at hand, Run finds.
absl::Status VirtualRunner::Check(const RunPlan& plan) {
  const proto::Job& job = plan.job;
  if (!job.has_model()) {
    return absl::InvalidArgumentError("program: virtual time computes models of the zoo only");
  }
  if (job.exchange() != proto::Job::PARAMETER_SERVER && job.exchange() != proto::Job::RING) {
    return absl::InvalidArgumentError(
        "exchange: virtual time knows PARAMETER_SERVER and RING only");
  }
  proto::Layout layout;  // any model: of a job whose nodes have an element each
  layout.set_elements(uint64_t{1} << 20);
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

absl::StatusOr<proto::RunRecord> VirtualRunner::Run(const RunPlan& plan,
                                                    const OnProgress& progress) {
  if (absl::Status status = Load(plan.job); !status.ok()) return status;
  VirtualRunOptions options;
  options.threads = threads_;
  options.stop = &stop_;
  options.on_progress = progress;
  absl::StatusOr<VirtualOutcome> outcome = RunInVirtualTime(plan, cluster_, data_, options);
  if (!outcome.ok()) return outcome.status();
  return std::move(outcome->record);
}

}  // namespace

std::unique_ptr<Runner> CreateVirtualRunner(ClusterFile cluster, uint32_t threads) {
  return std::make_unique<VirtualRunner>(std::move(cluster), threads);
}

}  // namespace strata::compare
