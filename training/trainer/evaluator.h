#ifndef STRATA_TRAINING_TRAINER_EVALUATOR_H_
#define STRATA_TRAINING_TRAINER_EVALUATOR_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/data/dataset.h"
#include "training/nn/create_network.h"

namespace strata::training {

struct Score {
  double accuracy = 0;
  double loss = 0;  // mean over samples
};

// Measures a model on a data set, batch by batch, in inference mode.
// Threads: one caller. The data set must outlive this.
class Evaluator {
 public:
  static constexpr uint32_t kBatchMax = 256;
  // Limit of the outputs of all layers for one batch.
  static constexpr uint64_t kOutputBytesMax = uint64_t{512} << 20;

  // Returns the largest power of two within both limits, for a model that FollowShapes accepts.
  static uint32_t BatchFor(const ModelSpec& model);

  // `weights` and `buffers` are read by each Measure; they are in the backend's memory.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(
      const ModelSpec& model, const Dataset* data, const Normalisation& normalisation,
      const std::vector<absl::Span<float>>& weights, const std::vector<absl::Span<float>>& buffers,
      const Backend& backend = {});

  // `network` is bound, in inference mode, for batches of `batch`.
  Evaluator(std::unique_ptr<Network> network, uint32_t batch, const Dataset* data,
            const Normalisation& normalisation);

  // Passes all samples through the network. Errors: the network's. REQUIRES: the data set is not
  // empty.
  absl::StatusOr<Score> Measure();

 private:
  const std::unique_ptr<Network> network_;
  const uint32_t batch_;
  const Dataset* const data_;
  const Normalisation normalisation_;
  std::vector<float> images_;
  std::vector<uint16_t> labels_;
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_EVALUATOR_H_
