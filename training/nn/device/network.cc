#include "training/nn/device/network.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/require.h"
#include "kernels/device/device.h"
#include "training/nn/device/layer.h"
#include "training/nn/network/layer_sequence.h"
#include "training/nn/network/model.h"

namespace strata::training::on_device {
namespace {

// Brings batches of images to the device, one ahead of the one in use, through pinned memory and in
// a stream of its own.
//
// Threads: one.
class ImageFeed {
 public:
  // A feed of batches of `values` fp32 values. The device outlives this.
  static absl::StatusOr<std::unique_ptr<ImageFeed>> Create(device::Device& device, size_t values);

  // Begins to bring a batch, which is copied before this returns. May wait for one to have gone.
  absl::Status Fetch(const float* images);
  // The place on the device of the batch that was fetched from `images`, or is now. What `stream`
  // does from now on finds it there.
  absl::StatusOr<const float*> Use(const float* images, device::Stream& stream);
  // Nothing that `stream` queues later reads the batch.
  absl::Status Done(device::Stream& stream);

 private:
  struct Slot {
    device::Memory host, memory;
    std::unique_ptr<device::Event> arrived, done;
  };

  explicit ImageFeed(size_t bytes) : bytes_(bytes) {}

  const size_t bytes_;
  std::array<Slot, 2> slots_;
  std::unique_ptr<device::Stream> copies_;  // ends before its memory
  size_t next_ = 0;                         // slot that is fetched into
  const float* fetched_ = nullptr;          // into the other one, and not used yet
};

absl::StatusOr<std::unique_ptr<ImageFeed>> ImageFeed::Create(device::Device& device,
                                                             size_t values) {
  std::unique_ptr<ImageFeed> feed(new ImageFeed(values * sizeof(float)));
  for (Slot& slot : feed->slots_) {
    auto host = device.AllocatePinned(feed->bytes_, "a batch of images");
    if (!host.ok()) return host.status();
    slot.host = *std::move(host);
    auto memory = device.Allocate(feed->bytes_, "a batch of images");
    if (!memory.ok()) return memory.status();
    slot.memory = *std::move(memory);
    for (auto* event : {&slot.arrived, &slot.done}) {
      auto made = device.NewEvent();
      if (!made.ok()) return made.status();
      *event = *std::move(made);
    }
  }
  auto copies = device.NewStream(/*urgent=*/true);
  if (!copies.ok()) return copies.status();
  feed->copies_ = *std::move(copies);
  return feed;
}

absl::Status ImageFeed::Fetch(const float* images) {
  Slot& slot = slots_[next_];
  // Its pinned memory is being copied from until then.
  if (auto status = slot.arrived->Await(); !status.ok()) return status;
  std::memcpy(slot.host.get(), images, bytes_);
  if (auto status = copies_->Wait(*slot.done); !status.ok()) return status;
  if (auto status = copies_->Copy(slot.memory.get(), slot.host.get(), bytes_); !status.ok()) {
    return status;
  }
  if (auto status = copies_->Record(slot.arrived.get()); !status.ok()) return status;
  next_ = 1 - next_;
  fetched_ = images;
  return absl::OkStatus();
}

absl::StatusOr<const float*> ImageFeed::Use(const float* images, device::Stream& stream) {
  if (fetched_ != images) {
    if (auto status = Fetch(images); !status.ok()) return status;
  }
  fetched_ = nullptr;
  const Slot& slot = slots_[1 - next_];
  if (auto status = stream.Wait(*slot.arrived); !status.ok()) return status;
  return reinterpret_cast<const float*>(slot.memory.get());
}

absl::Status ImageFeed::Done(device::Stream& stream) {
  return stream.Record(slots_[1 - next_].done.get());
}

// Layers that are computed as one, in one pass over the memory.
struct Fusion {
  bool join = false;  // of two values of one shape
  bool relu = false;  // after that
  size_t layers = 1;  // all together
};

// Returns which of the next layers layer `i`, whose output has this shape, computes too; `block` is
// the block around it, or null.

Fusion FusionAt(const ModelSpec& model, size_t i, const Shape& output, const Block* block) {
  const auto& kind = model.layers[i].kind;
  Fusion fusion;
  const bool normalises = std::holds_alternative<BatchNorm>(kind);
  if (!normalises && !std::holds_alternative<Convolution>(kind) &&
      !std::holds_alternative<InnerProduct>(kind)) {
    return fusion;
  }
  const auto follows = [&]<typename Kind>(const Kind*) {
    const size_t next = i + fusion.layers;
    return next < model.layers.size() && std::holds_alternative<Kind>(model.layers[next].kind);
  };
  if (normalises && block != nullptr && follows(static_cast<const Join*>(nullptr))) {
    fusion.join = block->ends.empty() ? block->forked.shape == output : block->ends.size() == 1;
    if (!fusion.join) return fusion;
    ++fusion.layers;
  }
  fusion.relu = follows(static_cast<const Relu*>(nullptr));
  if (fusion.relu) ++fusion.layers;
  return fusion;
}

// With the layer in an error's text.
absl::Status OfLayer(const std::string& layer, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("layer ", layer, ": ", status.message()));
}

struct MakeLayer {
  uint64_t index;
  bool in_place;
  const Shape& output;
  const Fusion& fusion;
  std::shared_ptr<Block>* block;  // that the Fork before began

  auto operator()(const Convolution& spec) const { return MakeConvolution(spec, fusion.relu); }
  auto operator()(const InnerProduct& spec) const { return MakeInnerProduct(spec, fusion.relu); }
  auto operator()(const MaxPool& spec) const { return MakeMaxPool(spec); }
  auto operator()(const AveragePool& spec) const { return MakeAveragePool(spec); }
  auto operator()(const GlobalAveragePool&) const { return MakeGlobalAveragePool(); }
  auto operator()(const BatchNorm& spec) const {
    return MakeBatchNorm(spec, fusion.join ? *block : nullptr, fusion.relu);
  }
  auto operator()(const Relu&) const { return MakeRelu(in_place); }
  auto operator()(const Dropout& spec) const { return MakeDropout(spec, index, in_place); }
  auto operator()(const Flatten&) const { return MakeFlatten(); }
  auto operator()(const Fork&) const {
    *block = std::make_shared<Block>();
    return MakeFork(*block);
  }
  auto operator()(const Branch&) const { return MakeBranch(*block); }
  auto operator()(const Join& spec) const { return MakeJoin(spec, *block, output); }
  auto operator()(const Concat&) const { return MakeConcat(*block); }
};

class DeviceNetwork : public Network {
 public:
  DeviceNetwork(const Options& options, device::Device& device,
                std::shared_ptr<device::Layers> layers)
      : options_(options),
        rank_(options.rank),
        device_(device),
        layers_(std::move(layers)),
        memory_(device_),
        context_{*layers_, memory_, options.batch, options.mode == Mode::kTrain} {}

  // Memory is given back only once nothing uses it. Whoever met an error has told it.
  ~DeviceNetwork() override { (void)layers_->stream().Synchronize(); }

  absl::Status Build(const ModelSpec& model, const std::vector<LayerShape>& shapes);

  void Bind(const std::vector<absl::Span<float>>& weights,
            const std::vector<absl::Span<float>>& gradients,
            const std::vector<absl::Span<float>>& buffers) override {
    sequence_.Bind(weights, gradients, buffers, context_.train);
  }

  void SetRank(uint32_t rank) override { rank_ = rank; }
  device::Stream* stream() override { return &layers_->stream(); }
  absl::Status Prefetch(const float* images) override { return feed_->Fetch(images); }

  absl::Status Forward(const float* images, uint64_t step, Hook before_read) override;
  absl::StatusOr<LossSums> Loss(absl::Span<const uint16_t> labels) override;
  absl::Status Backward(Hook complete) override;

  absl::Span<const float> Logits() const override {
    return Fetch(logits_, size_t{options_.batch} * classes_);
  }
  absl::Span<const float> InputGradient() const override {
    return Fetch(input_gradient_, context_.Elements(input_.shape));
  }

 private:
  using Node = LayerSequence<Layer>::Node;

  absl::Status AllocateOwn(const std::vector<LayerShape>& shapes);
  absl::Status BuildBackward();
  // fp32 values of the device, on the host; empty where the device has failed.
  absl::Span<const float> Fetch(const float* from, size_t count) const {
    on_host_.resize(count);
    device::Stream& stream = layers_->stream();
    const bool copied = stream.Copy(on_host_.data(), from, count * sizeof(float)).ok();
    if (!stream.Synchronize().ok() || !copied) return {};
    return on_host_;
  }

  const Options options_;
  uint32_t rank_;
  device::Device& device_;
  const std::shared_ptr<device::Layers> layers_;
  NetworkMemory memory_;
  LayerContext context_;
  std::unique_ptr<ImageFeed> feed_;
  LayerSequence<Layer> sequence_;
  uint32_t classes_ = 0;
  Values input_, output_, gradient_, last_gradient_;  // gradient_: of the logits
  float *logits_ = nullptr, *input_gradient_ = nullptr;
  // Labels, then losses, on the device and on the host.
  std::byte* loss_memory_ = nullptr;
  device::Memory loss_host_;
  mutable std::vector<float> on_host_;
};

// Memory that belongs to no layer.
absl::Status DeviceNetwork::AllocateOwn(const std::vector<LayerShape>& shapes) {
  size_t channels = 0;
  for (const LayerShape& shape : shapes) {
    channels = std::max<size_t>(channels, shape.output.channels);
  }
  const auto work = memory_.Allocate(device::RowWorkBytes(channels));
  if (!work.ok()) return work.status();
  context_.row_work = reinterpret_cast<float*>(*work);
  const size_t loss_bytes = options_.batch * (sizeof(device::SampleLoss) + sizeof(uint16_t));
  const auto loss = memory_.Allocate(loss_bytes);
  if (!loss.ok()) return loss.status();
  loss_memory_ = *loss;
  auto host = device_.AllocatePinned(loss_bytes, "losses");
  if (!host.ok()) return host.status();
  loss_host_ = *std::move(host);
  auto input = context_.NewOutput(input_.shape);
  if (!input.ok()) return input.status();
  input_ = *input;
  auto feed = ImageFeed::Create(device_, context_.Elements(input_.shape));
  if (!feed.ok()) return feed.status();
  feed_ = *std::move(feed);
  return absl::OkStatus();
}

absl::Status DeviceNetwork::Build(const ModelSpec& model, const std::vector<LayerShape>& shapes) {
  input_.shape = model.input;
  if (auto status = AllocateOwn(shapes); !status.ok()) return status;
  Values values = input_;
  bool own_values = false;
  std::shared_ptr<Block> block;
  for (size_t i = 0; i < model.layers.size();) {
    const LayerSpec& spec = model.layers[i];
    const Fusion fusion = FusionAt(model, i, shapes[i].output, block.get());
    const Node& node = sequence_.Add(
        spec.name,
        std::visit(MakeLayer{i, own_values, shapes[i].output, fusion, &block}, spec.kind),
        shapes[i]);
    const auto output = node.layer->BuildForward(context_, values);
    if (!output.ok()) return OfLayer(node.name, output.status());
    own_values = LeavesOwnValues(spec, own_values, output->at != values.at);
    values = *output;
    const bool ends_block = fusion.join || std::holds_alternative<Join>(spec.kind) ||
                            std::holds_alternative<Concat>(spec.kind);
    if (ends_block) block = nullptr;
    i += fusion.layers;
  }
  output_ = values;
  classes_ = values.shape.channels;
  const auto logits = memory_.Allocate(context_.Elements(values.shape) * sizeof(float));
  if (!logits.ok()) return logits.status();
  logits_ = reinterpret_cast<float*>(*logits);
  return context_.train ? BuildBackward() : absl::OkStatus();
}

absl::Status DeviceNetwork::BuildBackward() {
  if (!options_.input_gradient) sequence_.EndBackwardAtWeights();
  auto gradient = context_.NewGradient(output_.shape);
  if (!gradient.ok()) return gradient.status();
  gradient_ = *gradient;
  const absl::Status status = sequence_.BuildBackward([&](const Node& node, bool is_end) {
    gradient = node.layer->BuildBackward(context_, *gradient, options_.input_gradient || !is_end);
    return OfLayer(node.name, gradient.status());
  });
  if (!status.ok()) return status;
  last_gradient_ = *gradient;
  if (!options_.input_gradient) return absl::OkStatus();
  const auto memory = memory_.Allocate(context_.Elements(input_.shape) * sizeof(float));
  if (!memory.ok()) return memory.status();
  input_gradient_ = reinterpret_cast<float*>(*memory);
  return absl::OkStatus();
}

absl::Status DeviceNetwork::Forward(const float* images, uint64_t step, Hook before_read) {
  device::Stream& stream = layers_->stream();
  const auto arrived = feed_->Use(images, stream);
  if (!arrived.ok()) return arrived.status();
  absl::Status status = context_.kernels().transpose(stream, device::Element::kFloat32, *arrived,
                                                     context_.element(), input_.at, options_.batch,
                                                     input_.shape.channels, input_.places());
  if (status.ok()) status = feed_->Done(stream);
  if (!status.ok()) return status;
  const Pass pass{options_.seed, step, rank_};
  status = sequence_.Forward(before_read, [&](const Node& node) {
    return OfLayer(node.name, node.layer->Forward(context_, pass));
  });
  if (!status.ok()) return status;
  return context_.kernels().transpose(stream, context_.element(), output_.at,
                                      device::Element::kFloat32, logits_, 1, 1,
                                      context_.Elements(output_.shape));
}

absl::StatusOr<LossSums> DeviceNetwork::Loss(absl::Span<const uint16_t> labels) {
  STRATA_REQUIRE(options_.mode == Mode::kTrain ? labels.size() == options_.batch
                                               : labels.size() <= options_.batch);
  for (const uint16_t label : labels) STRATA_REQUIRE(label < classes_);
  device::Stream& stream = layers_->stream();
  const size_t of_losses = options_.batch * sizeof(device::SampleLoss);
  const size_t of_labels = labels.size() * sizeof(uint16_t);
  auto* const losses = reinterpret_cast<device::SampleLoss*>(loss_memory_);
  std::byte* const labels_host = loss_host_.get() + of_losses;
  std::memcpy(labels_host, labels.data(), of_labels);
  absl::Status status = stream.Copy(loss_memory_ + of_losses, labels_host, of_labels);
  if (status.ok()) {
    status =
        context_.kernels().softmax_loss(stream, logits_, labels.size(), classes_,
                                        reinterpret_cast<const uint16_t*>(loss_memory_ + of_losses),
                                        losses, context_.element(), gradient_.at);
  }
  const size_t bytes = labels.size() * sizeof(device::SampleLoss);
  if (status.ok()) status = stream.Copy(loss_host_.get(), losses, bytes);
  if (status.ok()) status = stream.Synchronize();
  if (!status.ok()) return status;
  LossSums sums;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto& sample = reinterpret_cast<const device::SampleLoss*>(loss_host_.get())[i];
    sums.loss += sample.loss;
    sums.correct += sample.correct;
  }
  return sums;
}

absl::Status DeviceNetwork::Backward(Hook complete) {
  const absl::Status status = sequence_.Backward(complete, [&](const Node& node) {
    return OfLayer(node.name, node.layer->Backward(context_));
  });
  if (!status.ok()) return status;
  if (!options_.input_gradient) return absl::OkStatus();
  return context_.kernels().transpose(layers_->stream(), context_.element(), last_gradient_.at,
                                      device::Element::kFloat32, input_gradient_, options_.batch,
                                      input_.places(), input_.shape.channels);
}

}  // namespace

}  // namespace strata::training::on_device

namespace strata::training {

absl::StatusOr<std::unique_ptr<Network>> CreateDeviceNetwork(
    const ModelSpec& model, const Network::Options& options, device::Device& device,
    std::shared_ptr<device::Layers> layers) {
  if (options.batch == 0) return absl::InvalidArgumentError("the batch size is 0");
  auto shapes = FollowShapes(model);
  if (!shapes.ok()) return shapes.status();
  auto network = std::make_unique<on_device::DeviceNetwork>(options, device, std::move(layers));
  if (auto status = network->Build(model, *shapes); !status.ok()) return status;
  return network;
}

}  // namespace strata::training
