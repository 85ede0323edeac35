#ifndef STRATA_TRAINING_DATA_CIFAR10_H_
#define STRATA_TRAINING_DATA_CIFAR10_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/data/dataset.h"

namespace strata::training {

inline constexpr uint32_t kCifar10Classes = 10;
inline constexpr uint32_t kCifar10Pixels = 3 * 32 * 32;
// The largest accepted file; real ones have 30,730,000 bytes.
inline constexpr uint64_t kCifar10BytesMax = uint64_t{1} << 30;

// Reads a file of CIFAR-10's binary version: samples of one byte of label and 3 x 32 x 32 of pixels
// in channel, row, column order. Errors, each naming the file: NotFound; InvalidArgument (not a
// file, too large, a label above 9); DataLoss (not a whole number of samples, or none).
absl::StatusOr<Dataset> ReadCifar10File(const std::string& path);

// Reads data_batch_1.bin to data_batch_5.bin for training, and test_batch.bin. All six are
// required. Errors: as for ReadCifar10File.
absl::StatusOr<TrainAndTest> ReadCifar10Folder(const std::string& dir);

// Returns the number of training samples in the folder, from the sizes of its files. Errors: as for
// ReadCifar10File, except for labels.
absl::StatusOr<uint64_t> CountCifar10TrainingSamples(const std::string& dir);

}  // namespace strata::training

#endif  // STRATA_TRAINING_DATA_CIFAR10_H_
