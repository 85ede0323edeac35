#ifndef STRATA_TRAINING_DATA_DATASET_H_
#define STRATA_TRAINING_DATA_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"

namespace strata::training {

// Makes the pixels of samples on request, the same each time. Threads: any.
class PixelMaker {
 public:
  virtual ~PixelMaker() = default;
  // One byte per pixel in channel, row, column order.
  virtual void Make(uint64_t sample, uint8_t* pixels) const = 0;
};

// Labelled images, one byte per pixel, sample after sample in channel, row, column order.
struct Dataset {
  std::string name = "the data";  // in errors: the job's field, and the folder if there is one
  uint32_t channels = 0, height = 0, width = 0;
  uint32_t classes = 0;
  std::vector<uint8_t> pixels;  // empty if a maker makes them
  std::shared_ptr<const PixelMaker> maker;
  std::vector<uint16_t> labels;  // each less than `classes`

  size_t size() const { return labels.size(); }
  size_t PixelsPerImage() const { return size_t{channels} * height * width; }
};

// Converts pixels to fp32 by channel: (pixel / 255 - mean) / deviation.
struct Normalisation {
  struct Channel {
    float mean = 0.0f;
    float deviation = 1.0f;
  };
  std::vector<Channel> channels;  // absent channels use pixel / 255

  // Computes mean and standard deviation over all pixels of a channel; with a maker, over the first
  // 256 images. The deviation is 1 if all pixels are equal.
  static Normalisation Of(const Dataset& data);
};

// Writes the normalised samples `indices` to `images` and their labels to `labels`, which must be
// large enough.
void FillBatch(const Dataset& data, const Normalisation& normalisation,
               absl::Span<const uint32_t> indices, float* images, uint16_t* labels);

struct TrainAndTest {
  Dataset train, test;
};

// Loads what a job's `data` describes, limits applied. Errors: NotFound, InvalidArgument, DataLoss:
// one line that names the file or field.
absl::StatusOr<TrainAndTest> LoadData(const proto::Data& data, uint64_t seed);

// Returns the number of training samples that LoadData would load. It reads only the header or the
// size of files. Errors: as for LoadData.
absl::StatusOr<uint64_t> CountTrainingSamples(const proto::Data& data);

}  // namespace strata::training

#endif  // STRATA_TRAINING_DATA_DATASET_H_
