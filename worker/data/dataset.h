#ifndef STRATA_WORKER_DATA_DATASET_H_
#define STRATA_WORKER_DATA_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"

namespace strata::worker {

// Labelled images, one byte per pixel, sample after sample in channel, row, column order.
struct Dataset {
  uint32_t channels = 0, height = 0, width = 0;
  uint32_t classes = 0;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;  // each below classes

  size_t size() const { return labels.size(); }
  size_t PixelsPerImage() const { return size_t{channels} * height * width; }
};

// Makes pixels fp32: (pixel / 255 - mean) / deviation.
struct Normalisation {
  float mean = 0.0f;
  float deviation = 1.0f;

  // Mean and standard deviation over all pixels; deviation 1 where all are equal.
  static Normalisation Of(const Dataset& data);
};

// Writes the samples `indices`, normalised, to `images` and their labels to `labels`.
// REQUIRES: images has room for indices.size() images, labels for indices.size().
void FillBatch(const Dataset& data, const Normalisation& normalisation,
               absl::Span<const uint32_t> indices, float* images, uint8_t* labels);

struct TrainAndTest {
  Dataset train, test;
};

// Loads what a job's `data` describes, limits applied. Errors: NotFound, InvalidArgument, DataLoss:
// one line that names the file or field.
absl::StatusOr<TrainAndTest> LoadData(const proto::Data& data, uint64_t seed);

// The training samples that LoadData would load. Of files only the header is read. Errors as of
// LoadData.
absl::StatusOr<uint64_t> CountTrainingSamples(const proto::Data& data);

}  // namespace strata::worker

#endif  // STRATA_WORKER_DATA_DATASET_H_
