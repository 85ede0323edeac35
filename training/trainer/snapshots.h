#ifndef STRATA_TRAINING_TRAINER_SNAPSHOTS_H_
#define STRATA_TRAINING_TRAINER_SNAPSHOTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "training/data/dataset.h"
#include "training/nn/network/model.h"
#include "training/nn/tensor_memory.h"
#include "training/trainer/evaluator.h"

namespace strata::worker {

// Copies of a model's weights and buffers as they were in the course of training, to be measured
// when it is over.
class Snapshots {
 public:
  struct Snapshot {
    uint64_t step = 0;     // steps before it
    double trained_s = 0;  // see RankReport in proto/control.proto
    Tensors tensors;       // the weights, then the buffers
  };
  using OnScore = std::function<absl::Status(const Snapshot& snapshot, const Score& score)>;

  // Each call gets as many tensors, of the same sizes, in the backend's memory. Errors: the
  // device's.
  absl::Status Take(uint64_t step, double trained_s, const std::vector<absl::Span<float>>& weights,
                    const std::vector<absl::Span<float>>& buffers, const Backend& backend = {});
  bool empty() const { return taken_.empty(); }

  // Adds all of them, as a checkpoint keeps them.
  void AppendState(std::string* state) const;
  // Takes those of such a text up; each has as many tensors as `sizes`, of so many elements.
  // Errors: InvalidArgument: they do not fit.
  absl::Status Restore(absl::Span<const std::byte> state, const std::vector<size_t>& sizes);

  // Measures one after the other, oldest first, and forgets them. Errors: of `on_score`, after
  // which nothing more is measured, and of the model.
  absl::Status Measure(const ModelSpec& model, const Dataset* data,
                       const Normalisation& normalisation, const OnScore& on_score,
                       const Backend& backend = {});

 private:
  std::vector<Snapshot> taken_;
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_SNAPSHOTS_H_
