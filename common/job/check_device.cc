#include "common/job/check_device.h"

#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

absl::Status CheckPrecision(const proto::Job& job) {
  const proto::Model::Precision precision = job.model().precision();
  if (!proto::Model::Precision_IsValid(precision)) {
    return Refuse(absl::StrFormat("model.precision: %d is not one of FP32, TF32, BF16", precision));
  }
  if (precision == proto::Model::FP32 || job.device() == proto::Job::GPU) return absl::OkStatus();
  return Refuse(absl::StrFormat("model.precision: %s needs device: GPU",
                                proto::Model::Precision_Name(precision)));
}

absl::Status CheckNccl(const proto::Job& job) {
  if (job.exchange() != proto::Job::NCCL) return absl::OkStatus();
  if (job.device() != proto::Job::GPU) {
    return Refuse("exchange: NCCL adds up what lies on GPUs, so it needs device: GPU");
  }
  if (job.consistency().has_sync()) return absl::OkStatus();
  return Refuse(absl::StrFormat("consistency: exchange: NCCL is sync, %s needs servers",
                                ModeName(job.consistency())));
}

absl::Status CheckNodeSum(const proto::Job& job) {
  const proto::NodeSum::By by = job.node_sum();
  if (!proto::NodeSum::By_IsValid(by)) {
    return Refuse(absl::StrFormat("node_sum: %d is not one of AGGREGATOR, NCCL", by));
  }
  if (by == proto::NodeSum::AGGREGATOR) return absl::OkStatus();
  if (job.device() != proto::Job::GPU) {
    return Refuse("node_sum: NCCL adds up what lies on GPUs, so it needs device: GPU");
  }
  if (job.exchange() == proto::Job::PARAMETER_SERVER || job.exchange() == proto::Job::RING) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat("node_sum: NCCL needs exchange: PARAMETER_SERVER or RING, not %s",
                                proto::Job::Exchange_Name(job.exchange())));
}

}  // namespace

absl::Status CheckDevice(const proto::Job& job) {
  if (!proto::Job::Device_IsValid(job.device())) {
    return Refuse(absl::StrFormat("device: %d is not one of CPU, GPU", job.device()));
  }
  if (absl::Status status = CheckPrecision(job); !status.ok()) return status;
  if (absl::Status status = CheckNccl(job); !status.ok()) return status;
  if (absl::Status status = CheckNodeSum(job); !status.ok()) return status;
  if (job.device() == proto::Job::CPU) return absl::OkStatus();
  if (job.exchange() == proto::Job::MPI) {
    return Refuse("device: GPU does not go with exchange: MPI, which adds up on the host");
  }
  return absl::OkStatus();
}

}  // namespace strata
