#ifndef STRATA_TRAINING_DATA_SYNTHETIC_H_
#define STRATA_TRAINING_DATA_SYNTHETIC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "training/data/dataset.h"

namespace strata::training {

// Images of ImageNet's number and shape, made when they are asked for: each class is a fixed
// pattern of 16 x 16 coloured squares, each sample its class's pattern plus noise. Zero fields mean
// the defaults of job.proto. Held in memory: 2 bytes a sample, and 1 MiB of noise. Errors:
// InvalidArgument naming the field.
absl::StatusOr<TrainAndTest> MakeSyntheticImageNet(const proto::SyntheticImageNet& config,
                                                   uint64_t seed);

// Returns the number of training samples among them.
uint64_t SyntheticImageNetTrainingSamples(const proto::SyntheticImageNet& config);

// Images made from the seed alone: each class is a fixed random pattern, each sample its class's
// pattern plus noise. Zero fields mean the defaults of job.proto. Errors: InvalidArgument naming
// the field (sizes out of range).
absl::StatusOr<TrainAndTest> MakeSynthetic(const proto::Synthetic& config, uint64_t seed);

// Returns the number of training samples among them.
uint64_t SyntheticTrainingSamples(const proto::Synthetic& config);

}  // namespace strata::training

#endif  // STRATA_TRAINING_DATA_SYNTHETIC_H_
