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

// Makes the pixels of samples when they are asked for, the same each time. Threads: any.
class PixelMaker {
 public:
  virtual ~PixelMaker() = default;
  // One byte per pixel in channel, row, column order.
  virtual void Make(uint64_t sample, uint8_t* pixels) const = 0;
};

// Labelled images, one byte per pixel, sample after sample in channel, row, column order.
struct Dataset {
  std::string name = "the data";  // in errors: the job's field, and the folder where there is one
  uint32_t channels = 0, height = 0, width = 0;
  uint32_t classes = 0;
  std::vector<uint8_t> pixels;  // empty where a maker has them
  std::shared_ptr<const PixelMaker> maker;
  std::vector<uint16_t> labels;  // each below classes

  size_t size() const { return labels.size(); }
  size_t PixelsPerImage() const { return size_t{channels} * height * width; }
};

// Makes pixels fp32, each channel for itself: (pixel / 255 - mean) / deviation.
struct Normalisation {
  struct Channel {
    float mean = 0.0f;
    float deviation = 1.0f;
  };
  std::vector<Channel> channels;  // those that are not there stay pixel / 255

  // Mean and standard deviation over all pixels of a channel, of a maker's over the first 256
  // images; deviation 1 where all are equal.
  static Normalisation Of(const Dataset& data);
};

// Writes the samples `indices`, normalised, to `images` and their labels to `labels`, which have
// room for as many.
void FillBatch(const Dataset& data, const Normalisation& normalisation,
               absl::Span<const uint32_t> indices, float* images, uint16_t* labels);

struct TrainAndTest {
  Dataset train, test;
};

// Loads what a job's `data` describes, limits applied. Errors: NotFound, InvalidArgument, DataLoss:
// one line that names the file or field.
absl::StatusOr<TrainAndTest> LoadData(const proto::Data& data, uint64_t seed);

// The training samples that LoadData would load. Of files only the header or the size is read.
// Errors as of LoadData.
absl::StatusOr<uint64_t> CountTrainingSamples(const proto::Data& data);

}  // namespace strata::training

#endif  // STRATA_TRAINING_DATA_DATASET_H_
