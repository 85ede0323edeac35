#ifndef STRATA_TRAINING_DATA_SYNTHETIC_H_
#define STRATA_TRAINING_DATA_SYNTHETIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "training/data/dataset.h"

namespace strata::worker {

// Images made from the seed alone: each class is a fixed random pattern, each sample its class's
// pattern plus noise. Zero fields mean the defaults of job.proto. Errors: InvalidArgument naming
// the field (sizes out of range).
absl::StatusOr<TrainAndTest> MakeSynthetic(const proto::Synthetic& config, uint64_t seed);

// How many of them are for training.
uint64_t SyntheticTrainingSamples(const proto::Synthetic& config);

}  // namespace strata::worker

#endif  // STRATA_TRAINING_DATA_SYNTHETIC_H_
