#ifndef STRATA_TRAINING_DATA_IDX_H_
#define STRATA_TRAINING_DATA_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "training/data/dataset.h"

namespace strata::training {

// Labels of the MNIST family are 0 to 9.
inline constexpr uint32_t kIdxClasses = 10;
// The largest accepted content of one file, decompressed.
inline constexpr uint64_t kIdxBytesMax = uint64_t{2} << 30;

// The content of an IDX file of unsigned bytes: big-endian magic 0x0000 08 NN, NN dimensions of 32
// bits each, then their product of bytes.
struct IdxArray {
  std::vector<uint32_t> dimensions;
  std::vector<uint8_t> values;
};

// Reads `path`, plain or gzip. Memory grows with what the file really holds, whatever it claims.
// Errors, each naming the file: NotFound; InvalidArgument (not an IDX file of bytes with that
// number of dimensions, too large); DataLoss (truncated, corrupt, more than the header says).
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, uint32_t dimensions);

// Reads the four files of the MNIST family in `dir`, each plain or with .gz.
absl::StatusOr<TrainAndTest> ReadIdxFolder(const std::string& dir);

// Returns the number of training samples in the folder, from the header of the labels. Errors: as
// for ReadIdx.
absl::StatusOr<uint64_t> CountIdxTrainingSamples(const std::string& dir);

}  // namespace strata::training

#endif  // STRATA_TRAINING_DATA_IDX_H_
