#ifndef STRATA_TRAINING_NN_TENSOR_MEMORY_H_
#define STRATA_TRAINING_NN_TENSOR_MEMORY_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/nn/create_network.h"

namespace strata::worker {

using Tensors = std::vector<std::vector<float>>;

// Tensors in the memory that a backend's networks compute in. It outlives all use of its spans.
class TensorMemory {
 public:
  TensorMemory() = default;
  // Returns memory that holds these values. Errors: the device's.
  static absl::StatusOr<TensorMemory> Create(const Backend& backend, Tensors values);

  // The host must not touch spans of a device's memory.
  const std::vector<absl::Span<float>>& spans() const { return spans_; }

 private:
  Tensors host_;
  device::Memory memory_;
  std::vector<absl::Span<float>> spans_;
};

// What such tensors hold, once all is done that was queued in the backend's stream. Errors: the
// device's.
absl::StatusOr<Tensors> ReadTensors(const Backend& backend,
                                    const std::vector<absl::Span<float>>& tensors);

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_TENSOR_MEMORY_H_
