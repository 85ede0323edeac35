// Layers at which the branches of a block begin and end (model.h). A branch's layers may overwrite
// its gradient, so each branch has one of its own.
#include <utility>

#include "training/nn/device/layer.h"

namespace strata::training::on_device {
namespace {

class ForkLayer : public Layer {
 public:
  explicit ForkLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  absl::StatusOr<Values> BuildForward(const LayerContext&, const Values& source) override {
    block_->forked = source;
    return source;
  }
  // The sum of all shares, in the place of the first one.
  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool want_source_gradient) override {
    if (!want_source_gradient) return Values();
    sum_ = gradient;
    for (const Values& share : block_->forked_gradients) context.GiveBack(share);
    return gradient;
  }
  absl::Status Forward(const LayerContext&, const Pass&) override { return absl::OkStatus(); }
  absl::Status Backward(const LayerContext& context) override {
    if (sum_.at == nullptr) return absl::OkStatus();
    for (const Values& share : block_->forked_gradients) {
      auto status = context.kernels().add(context.stream(), context.element(), sum_.at, share.at,
                                          false, sum_.at, context.Elements(sum_.shape));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Block> block_;
  Values sum_;
};

class BranchLayer : public Layer {
 public:
  explicit BranchLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  absl::StatusOr<Values> BuildForward(const LayerContext&, const Values& source) override {
    block_->ends.push_back(source);
    return block_->forked;
  }
  absl::StatusOr<Values> BuildBackward(const LayerContext&, const Values& gradient, bool) override {
    if (gradient.at != nullptr) block_->forked_gradients.push_back(gradient);
    const Values end_gradient = block_->end_gradients.back();
    block_->end_gradients.pop_back();
    return end_gradient;
  }
  absl::Status Forward(const LayerContext&, const Pass&) override { return absl::OkStatus(); }
  absl::Status Backward(const LayerContext&) override { return absl::OkStatus(); }

 private:
  const std::shared_ptr<Block> block_;
};

// The sum of branches that have one shape, or of one and what the Fork met.
class JoinLayer : public Layer {
 public:
  explicit JoinLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    source_ = source;
    others_ = block_->ends;
    if (others_.empty()) others_.push_back(block_->forked);
    auto output = context.NewOutput(source.shape);
    if (output.ok()) output_ = *output;
    return output;
  }
  // The last branch takes the gradient itself, the others and the shortcut copies.
  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool) override {
    gradient_ = gradient;
    for (size_t i = 0; i < others_.size(); ++i) {
      auto copy = context.NewGradient(gradient.shape);
      if (!copy.ok()) return copy;
      copies_.push_back(*copy);
      (block_->ends.empty() ? block_->forked_gradients : block_->end_gradients).push_back(*copy);
    }
    return gradient;
  }
  absl::Status Forward(const LayerContext& context, const Pass&) override {
    const std::byte* sum = source_.at;
    for (const Values& other : others_) {
      auto status = context.kernels().add(context.stream(), context.element(), sum, other.at, false,
                                          output_.at, context.Elements(output_.shape));
      if (!status.ok()) return status;
      sum = output_.at;
    }
    return absl::OkStatus();
  }
  absl::Status Backward(const LayerContext& context) override {
    for (const Values& copy : copies_) {
      auto status = context.stream().Copy(copy.at, gradient_.at, context.Bytes(gradient_.shape));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Block> block_;
  Values source_, output_, gradient_;
  std::vector<Values> others_, copies_;
};

// Joins a branch with a shortcut that takes every stride-th place and leaves further channels as
// they are.
class SubsamplingJoinLayer : public Layer {
 public:
  SubsamplingJoinLayer(const Join& spec, std::shared_ptr<Block> block)
      : stride_(spec.stride), block_(std::move(block)) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    source_ = source;
    forked_ = block_->forked;
    shape_ = {.element = context.element(),
              .batch = context.batch,
              .channels = source.shape.channels,
              .height = source.shape.height,
              .width = source.shape.width,
              .from_channels = forked_.shape.channels,
              .from_height = forked_.shape.height,
              .from_width = forked_.shape.width,
              .stride = stride_};
    auto output = context.NewOutput(source.shape);
    if (output.ok()) output_ = *output;
    return output;
  }
  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool) override {
    gradient_ = gradient;
    auto share = context.NewGradient(forked_.shape);
    if (!share.ok()) return share;
    share_ = *share;
    block_->forked_gradients.push_back(share_);
    return gradient;
  }
  absl::Status Forward(const LayerContext& context, const Pass&) override {
    return context.kernels().add_shortcut(context.stream(), shape_, source_.at, forked_.at,
                                          output_.at);
  }
  // The block's layers may overwrite the gradient, so the shortcut's share is taken now.
  absl::Status Backward(const LayerContext& context) override {
    return context.kernels().shortcut_backward(context.stream(), shape_, gradient_.at, share_.at);
  }

 private:
  const uint32_t stride_;
  const std::shared_ptr<Block> block_;
  device::ShortcutShape shape_;
  Values source_, forked_, output_, gradient_, share_;
};

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    ends_ = block_->ends;
    ends_.push_back(source);
    Shape whole = source.shape;
    whole.channels = 0;
    for (const Values& end : ends_) whole.channels += end.shape.channels;
    auto output = context.NewOutput(whole);
    if (output.ok()) output_ = *output;
    return output;
  }
  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool) override {
    gradient_ = gradient;
    for (const Values& end : ends_) {
      auto part = context.NewGradient(end.shape);
      if (!part.ok()) return part;
      parts_.push_back(*part);
    }
    context.GiveBack(gradient);
    block_->end_gradients.assign(parts_.begin(), parts_.end() - 1);
    return parts_.back();
  }
  absl::Status Forward(const LayerContext& context, const Pass&) override {
    return ForEachPart(
        ends_, [&](const Values& end, device::ChannelSlice part, device::ChannelSlice in_whole) {
          return Copy(context, part.channels, part, end.at, in_whole, output_.at);
        });
  }
  absl::Status Backward(const LayerContext& context) override {
    return ForEachPart(parts_, [&](const Values& gradient, device::ChannelSlice part,
                                   device::ChannelSlice in_whole) {
      return Copy(context, part.channels, in_whole, gradient_.at, part, gradient.at);
    });
  }

 private:
  // Calls each(part, its slice by itself, its slice of the whole), until one fails.
  template <typename Each>
  absl::Status ForEachPart(const std::vector<Values>& parts, Each each) const {
    uint32_t first = 0;
    for (const Values& part : parts) {
      const uint32_t channels = part.shape.channels;
      const auto status = each(part, device::ChannelSlice{channels, 0},
                               device::ChannelSlice{output_.shape.channels, first});
      if (!status.ok()) return status;
      first += channels;
    }
    return absl::OkStatus();
  }
  absl::Status Copy(const LayerContext& context, uint32_t channels, device::ChannelSlice from,
                    const void* in, device::ChannelSlice to, void* out) const {
    return context.kernels().copy_channels(context.stream(), context.element(),
                                           size_t{context.batch} * output_.places(), channels, from,
                                           in, to, out);
  }

  const std::shared_ptr<Block> block_;
  std::vector<Values> ends_, parts_;
  Values output_, gradient_;
};

}  // namespace

std::unique_ptr<Layer> MakeFork(std::shared_ptr<Block> block) {
  return std::make_unique<ForkLayer>(std::move(block));
}

std::unique_ptr<Layer> MakeBranch(std::shared_ptr<Block> block) {
  return std::make_unique<BranchLayer>(std::move(block));
}

std::unique_ptr<Layer> MakeJoin(const Join& spec, std::shared_ptr<Block> block,
                                const Shape& joined) {
  if (!block->ends.empty() || block->forked.shape == joined) {
    return std::make_unique<JoinLayer>(std::move(block));
  }
  return std::make_unique<SubsamplingJoinLayer>(spec, std::move(block));
}

std::unique_ptr<Layer> MakeConcat(std::shared_ptr<Block> block) {
  return std::make_unique<ConcatLayer>(std::move(block));
}

}  // namespace strata::training::on_device
