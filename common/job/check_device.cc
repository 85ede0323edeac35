#include "common/job/check_device.h"

#include "absl/strings/str_format.h"
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

}  // namespace

absl::Status CheckDevice(const proto::Job& job) {
  if (!proto::Job::Device_IsValid(job.device())) {
    return Refuse(absl::StrFormat("device: %d is not one of CPU, GPU", job.device()));
  }
  if (absl::Status status = CheckPrecision(job); !status.ok()) return status;
  if (job.exchange() == proto::Job::NCCL) {
    return Refuse("exchange: NCCL is not there yet");
  }
  if (job.device() == proto::Job::CPU) return absl::OkStatus();
  if (job.has_model()) return Refuse("device: GPU is for programs so far");
  if (job.exchange() == proto::Job::MPI || job.exchange() == proto::Job::NONE) {
    return Refuse(absl::StrFormat("device: GPU needs exchange: PARAMETER_SERVER or RING, not %s",
                                  proto::Job::Exchange_Name(job.exchange())));
  }
  return absl::OkStatus();
}

}  // namespace strata
