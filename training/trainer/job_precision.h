#ifndef STRATA_TRAINING_TRAINER_JOB_PRECISION_H_
#define STRATA_TRAINING_TRAINER_JOB_PRECISION_H_

#include "kernels/device/layers.h"
#include "proto/job.pb.h"

namespace strata::worker {

// Returns the format that the job wants its layers computed in.
inline device::Precision JobPrecision(const proto::Job& job) {
  switch (job.model().precision()) {
    case proto::Model::TF32:
      return device::Precision::kTensorFloat32;
    case proto::Model::BF16:
      return device::Precision::kBFloat16;
    default:
      return device::Precision::kFloat32;
  }
}

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_JOB_PRECISION_H_
