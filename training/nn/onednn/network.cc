#include "training/nn/onednn/network.h"

#include <omp.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/require.h"
#include "training/nn/network/layer_sequence.h"
#include "training/nn/onednn/layer.h"

namespace strata::training {
namespace {

// Turns an exception of oneDNN into a status that names the layer.
absl::Status OneDnnError(const std::string& layer, const dnnl::error& error) {
  return absl::InternalError(
      absl::StrCat("layer ", layer, ": oneDNN: ", error.message, " (status ", error.status, ")"));
}

// OK where `call` throws nothing.
template <typename Call>
absl::Status Try(const std::string& layer, Call call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    return OneDnnError(layer, error);
  }
}

struct MakeLayer {
  uint64_t index;
  bool in_place;
  const dnnl::memory& source;
  std::shared_ptr<Block>* block;  // that the Fork before began

  auto operator()(const Convolution& spec) const { return MakeConvolution(spec); }
  auto operator()(const InnerProduct& spec) const { return MakeInnerProduct(spec); }
  auto operator()(const MaxPool& spec) const { return MakeMaxPool(spec); }
  auto operator()(const AveragePool& spec) const { return MakeAveragePool(spec); }
  auto operator()(const GlobalAveragePool&) const { return MakeGlobalAveragePool(); }
  auto operator()(const BatchNorm& spec) const { return MakeBatchNorm(spec); }
  auto operator()(const Relu&) const { return MakeRelu(in_place); }
  auto operator()(const Dropout& spec) const { return MakeDropout(spec, index); }
  auto operator()(const Flatten&) const { return MakeFlatten(); }
  auto operator()(const Fork&) const {
    *block = std::make_shared<Block>();
    return MakeFork(*block);
  }
  auto operator()(const Branch&) const { return MakeBranch(*block); }
  auto operator()(const Join& spec) const { return MakeJoin(spec, *block, source); }
  auto operator()(const Concat&) const { return MakeConcat(*block); }
};

class OneDnnNetwork : public Network {
 public:
  explicit OneDnnNetwork(const Options& options) : options_(options), rank_(options.rank) {
    device_.train = options.mode == Mode::kTrain;
  }

  absl::Status Build(const ModelSpec& model, const std::vector<LayerShape>& shapes) {
    const Shape& in = model.input;
    images_ = Unplaced(device_, PlainLayout({options_.batch, in.channels, in.height, in.width}));
    dnnl::memory values = images_;
    bool own_values = false;
    std::shared_ptr<Block> block;
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const LayerSpec& spec = model.layers[i];
      const dnnl::memory source = values;
      const auto& node = layers_.Add(
          spec.name, std::visit(MakeLayer{i, own_values, source, &block}, spec.kind), shapes[i]);
      const absl::Status status =
          Try(node.name, [&] { values = node.layer->BuildForward(device_, source); });
      if (!status.ok()) return status;
      own_values = LeavesOwnValues(spec, own_values, values != source);
    }
    classes_ = shapes.back().output.channels;
    logits_ = Relayout::Import(device_, values, PlainLayout(values.get_desc().dims()));
    return device_.train ? BuildBackward() : absl::OkStatus();
  }

  void Bind(const std::vector<absl::Span<float>>& weights,
            const std::vector<absl::Span<float>>& gradients,
            const std::vector<absl::Span<float>>& buffers) override {
    layers_.Bind(weights, gradients, buffers, device_.train);
  }

  void SetRank(uint32_t rank) override { rank_ = rank; }

  absl::Status Forward(const float* images, uint64_t step, Hook before_read) override {
    images_.set_data_handle(const_cast<float*>(images));  // oneDNN has no read-only memory
    const Pass pass{options_.seed, step, rank_};
    const absl::Status status = layers_.Forward(before_read, [&](const Node& node) {
      return Try(node.name, [&] { node.layer->Forward(device_, pass); });
    });
    if (!status.ok()) return status;
    logits_.Run(device_);
    return absl::OkStatus();
  }

  absl::Span<const float> Logits() const override {
    return {static_cast<const float*>(logits_.inside().get_data_handle()),
            size_t{options_.batch} * classes_};
  }

  absl::StatusOr<LossSums> Loss(absl::Span<const uint16_t> labels) override {
    STRATA_REQUIRE(options_.mode == Mode::kTrain ? labels.size() == options_.batch
                                                 : labels.size() <= options_.batch);
    float* gradient = device_.train ? static_cast<float*>(gradient_.get_data_handle()) : nullptr;
    return SoftmaxCrossEntropy(Logits().data(), classes_, labels, gradient);
  }

  absl::Status Backward(Hook complete) override {
    const absl::Status status = layers_.Backward(complete, [&](const Node& node) {
      return Try(node.name, [&] { node.layer->Backward(device_); });
    });
    if (!status.ok()) return status;
    if (options_.input_gradient) input_gradient_.Run(device_);
    return absl::OkStatus();
  }

  absl::Span<const float> InputGradient() const override {
    const dnnl::memory& values = input_gradient_.inside();
    return {static_cast<const float*>(values.get_data_handle()),
            values.get_desc().get_size() / sizeof(float)};
  }

 private:
  using Node = LayerSequence<Layer>::Node;

  absl::Status BuildBackward() {
    if (!options_.input_gradient) layers_.EndBackwardAtWeights();
    gradient_ = dnnl::memory(logits_.inside().get_desc(), device_.engine);
    dnnl::memory values = gradient_;
    const absl::Status status = layers_.BuildBackward([&](const Node& node, bool is_end) {
      const bool want = options_.input_gradient || !is_end;
      return Try(node.name, [&] { values = node.layer->BuildBackward(device_, values, want); });
    });
    if (!status.ok()) return status;
    if (options_.input_gradient) {
      input_gradient_ = Relayout::Import(device_, values, images_.get_desc());
    }
    return absl::OkStatus();
  }

  const Options options_;
  uint32_t rank_;
  Device device_;
  uint32_t classes_ = 0;
  LayerSequence<Layer> layers_;
  dnnl::memory images_, gradient_;  // gradient_: of the logits
  Relayout logits_, input_gradient_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CreateOneDnnNetwork(const ModelSpec& model,
                                                             const Network::Options& options) {
  if (options.batch == 0) return absl::InvalidArgumentError("the batch size is 0");
  auto shapes = FollowShapes(model);
  if (!shapes.ok()) return shapes.status();
  omp_set_num_threads(1);
  try {
    auto network = std::make_unique<OneDnnNetwork>(options);
    if (auto status = network->Build(model, *shapes); !status.ok()) return status;
    return network;
  } catch (const dnnl::error& error) {
    return OneDnnError("(none)", error);
  }
}

}  // namespace strata::training
