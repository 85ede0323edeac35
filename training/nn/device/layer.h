#ifndef STRATA_TRAINING_NN_DEVICE_LAYER_H_
#define STRATA_TRAINING_NN_DEVICE_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/require.h"
#include "kernels/device/device.h"
#include "kernels/device/layers.h"
#include "training/nn/network/model.h"

// Internal to training/nn/device; in a namespace of its own, as onednn/ has layers, too.

namespace strata::training::on_device {

// Device memory of one network: everything that its layers request while they are built.
class NetworkMemory {
 public:
  explicit NetworkMemory(device::Device& device) : device_(device) {}

  absl::StatusOr<std::byte*> Allocate(size_t bytes) {
    auto memory = device_.Allocate(bytes == 0 ? 1 : bytes, "a network");
    if (!memory.ok()) return memory.status();
    owned_.push_back(*std::move(memory));
    return owned_.back().get();
  }

  // Returns memory that is used for part of each step, always at the same point of its order.
  // Returned memory is reused by layers that are built, and run, later.
  absl::StatusOr<std::byte*> Take(size_t bytes) {
    const auto found = free_.lower_bound(bytes);
    if (found != free_.end() && found->first / 4 <= bytes) {
      std::byte* const at = found->second;
      free_.erase(found);
      return at;
    }
    auto at = Allocate(bytes);
    if (at.ok()) sizes_[*at] = bytes;
    return at;
  }
  // Makes memory free for later calls of Take. REQUIRES: `at` came from Take.
  void GiveBack(std::byte* at) {
    const auto size = sizes_.find(at);
    STRATA_REQUIRE(size != sizes_.end());
    free_.emplace(size->second, at);
  }

 private:
  device::Device& device_;
  std::vector<device::Memory> owned_;
  std::map<std::byte*, size_t> sizes_;
  std::multimap<size_t, std::byte*> free_;
};

// A batch of values on the device, channels last. Null: there are none.
struct Values {
  std::byte* at = nullptr;
  Shape shape;

  uint32_t places() const { return shape.height * shape.width; }
};

// Context shared by all layers of a network.
struct LayerContext {
  device::Layers& layers;
  NetworkMemory& memory;
  uint32_t batch = 1;
  bool train = true;
  float* row_work = nullptr;  // for kernels that add up rows

  device::Element element() const { return ElementFor(layers.precision()); }
  device::Stream& stream() const { return layers.stream(); }
  const device::LayerKernels& kernels() const { return layers.kernels(); }
  size_t Elements(const Shape& shape) const { return batch * shape.Elements(); }
  size_t Bytes(const Shape& shape) const { return Elements(shape) * ElementBytes(element()); }
  device::RowsShape Rows(const Values& of) const {
    return {element(), size_t{batch} * of.places(), of.shape.channels};
  }

  // Outputs persist from step to step.
  absl::StatusOr<Values> NewOutput(const Shape& shape) const {
    const auto at = memory.Allocate(Bytes(shape));
    if (!at.ok()) return at.status();
    return Values{*at, shape};
  }
  // A gradient belongs to the layer that received it, which hands it on or gives it back.
  absl::StatusOr<Values> NewGradient(const Shape& shape) const {
    const auto at = memory.Take(Bytes(shape));
    if (!at.ok()) return at.status();
    return Values{*at, shape};
  }
  void GiveBack(const Values& gradient) const { memory.GiveBack(gradient.at); }
};

// The arguments of one pass.
struct Pass {
  uint64_t seed = 0, step = 0;
  uint32_t rank = 0;
};

// One layer, or several that are computed as one. BuildForward comes first, from the first layer to
// the last; then BuildBackward from the last to the first; then Forward and Backward in the same
// orders per step, which queue work.
class Layer {
 public:
  virtual ~Layer() = default;

  // Returns where the layer leaves its output.
  virtual absl::StatusOr<Values> BuildForward(const LayerContext& context,
                                              const Values& source) = 0;
  // Takes the output's gradient; returns the source's gradient if it is needed.
  virtual absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                               bool want_source_gradient) = 0;

  virtual void BindWeights(absl::Span<const absl::Span<float>>) {}
  virtual void BindGradients(absl::Span<const absl::Span<float>>) {}
  virtual void BindBuffers(absl::Span<const absl::Span<float>>) {}

  virtual absl::Status Forward(const LayerContext& context, const Pass& pass) = 0;
  virtual absl::Status Backward(const LayerContext& context) = 0;
};

// State that the layers of a block (see model.h) share while they are built. Outputs are theirs for
// good; gradients are handed on.
struct Block {
  Values forked;                         // the values at the Fork
  std::vector<Values> ends;              // of the branches that end with a Branch
  std::vector<Values> end_gradients;     // gradients of the ends
  std::vector<Values> forked_gradients;  // of `forked`: from all branches except the first, or from
                                         // a shortcut
};

std::unique_ptr<Layer> MakeConvolution(const Convolution& spec, bool relu);
std::unique_ptr<Layer> MakeInnerProduct(const InnerProduct& spec, bool relu);
// `block`: if it is not null, its branches are added before ReLU.
std::unique_ptr<Layer> MakeBatchNorm(const BatchNorm& spec, std::shared_ptr<Block> block,
                                     bool relu);
std::unique_ptr<Layer> MakeMaxPool(const MaxPool& spec);
std::unique_ptr<Layer> MakeAveragePool(const AveragePool& spec);
std::unique_ptr<Layer> MakeGlobalAveragePool();
// With `in_place`, the output overwrites the source.
std::unique_ptr<Layer> MakeRelu(bool in_place);
// `index`: the layer's index in its model, which separates the random numbers of layers.
std::unique_ptr<Layer> MakeDropout(const Dropout& spec, uint64_t index, bool in_place);
std::unique_ptr<Layer> MakeFlatten();
std::unique_ptr<Layer> MakeFork(std::shared_ptr<Block> block);
std::unique_ptr<Layer> MakeBranch(std::shared_ptr<Block> block);
std::unique_ptr<Layer> MakeJoin(const Join& spec, std::shared_ptr<Block> block,
                                const Shape& joined);
std::unique_ptr<Layer> MakeConcat(std::shared_ptr<Block> block);

// The source as rows in the model's element order, channels first; the same memory if that order
// equals channels last.
class Flattening {
 public:
  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source);
  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient);
  absl::Status Forward(const LayerContext& context);
  absl::Status Backward(const LayerContext& context);

 private:
  bool copies() const { return source_.shape.channels > 1 && source_.places() > 1; }
  Values source_, output_, gradient_, source_gradient_;
};

}  // namespace strata::training::on_device

#endif  // STRATA_TRAINING_NN_DEVICE_LAYER_H_
