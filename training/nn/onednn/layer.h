#ifndef STRATA_TRAINING_NN_ONEDNN_LAYER_H_
#define STRATA_TRAINING_NN_ONEDNN_LAYER_H_

// Internal to training/nn/onednn: no header of another folder names oneDNN.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "training/nn/network/model.h"

namespace strata::training {

// Context shared by all layers of a network.
struct Device {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  bool train = true;

  dnnl::prop_kind ForwardKind() const {
    return train ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  }
};

// A primitive and its arguments, to be run repeatedly.
struct Execution {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;

  void Run(const Device& device) const { primitive.execute(device.stream, arguments); }
};

// Holds values in the layout that a primitive wants: `inside` is `outside` itself where the layouts
// are equal, else a buffer that Run fills from it (Import) or copies to it (Export).
class Relayout {
 public:
  Relayout() = default;
  static Relayout Import(const Device& device, dnnl::memory outside,
                         const dnnl::memory::desc& wanted);
  static Relayout Export(const Device& device, dnnl::memory outside,
                         const dnnl::memory::desc& wanted);

  const dnnl::memory& inside() const { return inside_; }
  void Run(const Device& device) const {
    if (copy_.primitive) copy_.Run(device);
  }

 private:
  dnnl::memory inside_;
  Execution copy_;
};

// Returns the values in a memory.
inline float* Floats(const dnnl::memory& values) {
  return static_cast<float*>(values.get_data_handle());
}

// Descriptors of fp32 values: in any layout, or in the plain layout of the model's tensors.
dnnl::memory::desc AnyLayout(const dnnl::memory::dims& dims);
dnnl::memory::desc PlainLayout(const dnnl::memory::dims& dims);
// Returns memory without a buffer; set it by set_data_handle.
dnnl::memory Unplaced(const Device& device, const dnnl::memory::desc& desc);

// The arguments of one pass.
struct Pass {
  uint64_t seed = 0, step = 0;
  uint32_t rank = 0;
};

// One layer built for a batch size. BuildForward comes first, from the first layer to the last;
// then BuildBackward from the last to the first; then Forward and Backward in the same orders per
// step.
class Layer {
 public:
  virtual ~Layer() = default;

  // Returns where the layer leaves its output. `source` is kept (shared).
  virtual dnnl::memory BuildForward(const Device& device, const dnnl::memory& source) = 0;
  // Takes the output's gradient, which may be overwritten; returns the source's gradient if it is
  // needed.
  virtual dnnl::memory BuildBackward(const Device& device, const dnnl::memory& gradient,
                                     bool want_source_gradient) = 0;

  virtual void BindWeights(absl::Span<const absl::Span<float>> weights) {}
  virtual void BindGradients(absl::Span<const absl::Span<float>> gradients) {}
  virtual void BindBuffers(absl::Span<const absl::Span<float>> buffers) {}

  virtual void Forward(const Device& device, const Pass& pass) = 0;
  virtual void Backward(const Device& device) = 0;
};

std::unique_ptr<Layer> MakeConvolution(const Convolution& spec);
std::unique_ptr<Layer> MakeInnerProduct(const InnerProduct& spec);
std::unique_ptr<Layer> MakeMaxPool(const MaxPool& spec);
std::unique_ptr<Layer> MakeAveragePool(const AveragePool& spec);
std::unique_ptr<Layer> MakeGlobalAveragePool();
std::unique_ptr<Layer> MakeBatchNorm(const BatchNorm& spec);
// With `in_place`, the output overwrites the source.
std::unique_ptr<Layer> MakeRelu(bool in_place);
// `index`: the layer's index in its model, which separates the random numbers of layers.
std::unique_ptr<Layer> MakeDropout(const Dropout& spec, uint64_t index);
std::unique_ptr<Layer> MakeFlatten();

// State that the layers of a block (see model.h) share while they are built. The memory is theirs
// for good: no layer within the block overwrites what another one of them reads.
struct Block {
  dnnl::memory forked;                      // the values at the Fork
  std::vector<dnnl::memory> ends;           // of the branches that end with a Branch
  std::vector<dnnl::memory> end_gradients;  // gradients of the ends, each overwritten by its branch
  // The gradients of `forked` from all branches except the first, and from a shortcut.
  std::vector<dnnl::memory> forked_gradients;
};
std::unique_ptr<Layer> MakeFork(std::shared_ptr<Block> block);
std::unique_ptr<Layer> MakeBranch(std::shared_ptr<Block> block);
// `source`: the argument that BuildForward will get.
std::unique_ptr<Layer> MakeJoin(const Join& spec, std::shared_ptr<Block> block,
                                const dnnl::memory& source);
std::unique_ptr<Layer> MakeConcat(std::shared_ptr<Block> block);

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_ONEDNN_LAYER_H_
