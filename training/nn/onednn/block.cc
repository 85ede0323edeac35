// Layers at which the branches of a block begin and end (model.h). A branch's layers may overwrite
// its gradient, so each branch has one of its own.

#include <algorithm>
#include <utility>

#include "training/nn/onednn/layer.h"

namespace strata::training {
namespace {

using dnnl::memory;

// Adds memories of one shape, in the layout of the first.
class Sum {
 public:
  Sum() = default;
  Sum(const Device& device, const std::vector<memory>& terms) {
    const memory::desc desc = terms[0].get_desc();
    const std::vector<memory::desc> descs(terms.size(), desc);
    const std::vector<float> ones(terms.size(), 1.0f);
    result_ = memory(desc, device.engine);
    sum_ = {dnnl::sum(dnnl::sum::primitive_desc(desc, ones, descs, device.engine)),
            {{DNNL_ARG_DST, result_}}};
    for (const memory& term : terms) {
      const int argument = DNNL_ARG_MULTIPLE_SRC + static_cast<int>(terms_.size());
      terms_.push_back(Relayout::Import(device, term, desc));
      sum_.arguments.insert({argument, terms_.back().inside()});
    }
  }

  const memory& result() const { return result_; }
  void Run(const Device& device) const {
    for (const Relayout& term : terms_) term.Run(device);
    sum_.Run(device);
  }

 private:
  std::vector<Relayout> terms_;
  memory result_;
  Execution sum_;
};

Execution Copy(const memory& from, const memory& to) {
  return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

class ForkLayer : public Layer {
 public:
  explicit ForkLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  memory BuildForward(const Device&, const memory& source) override {
    block_->forked = source;
    return source;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    if (block_->forked_gradients.empty()) return gradient;
    std::vector<memory> shares = {gradient};
    shares.insert(shares.end(), block_->forked_gradients.begin(), block_->forked_gradients.end());
    sum_ = Sum(device, shares);
    return sum_.result();
  }

  void Forward(const Device&, const Pass&) override {}

  void Backward(const Device& device) override {
    if (sum_.result()) sum_.Run(device);
  }

 private:
  const std::shared_ptr<Block> block_;
  Sum sum_;
};

class BranchLayer : public Layer {
 public:
  explicit BranchLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  memory BuildForward(const Device&, const memory& source) override {
    block_->ends.push_back(source);
    return block_->forked;
  }

  memory BuildBackward(const Device&, const memory& gradient, bool) override {
    block_->forked_gradients.push_back(gradient);
    const memory end_gradient = block_->end_gradients.back();
    block_->end_gradients.pop_back();
    return end_gradient;
  }

  void Forward(const Device&, const Pass&) override {}
  void Backward(const Device&) override {}

 private:
  const std::shared_ptr<Block> block_;
};

// The sum of branches that have one shape, or of one and what the Fork met.
class JoinLayer : public Layer {
 public:
  explicit JoinLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  memory BuildForward(const Device& device, const memory& source) override {
    std::vector<memory> terms = {source};
    terms.insert(terms.end(), block_->ends.begin(), block_->ends.end());
    if (block_->ends.empty()) terms.push_back(block_->forked);
    sum_ = Sum(device, terms);
    return sum_.result();
  }

  // The last branch takes the gradient itself, the others and the shortcut copies.
  memory BuildBackward(const Device& device, const memory& gradient, bool) override {
    const auto add = [&](const memory& values, std::vector<memory>* gradients) {
      gradients->emplace_back(values.get_desc(), device.engine);
      copies_.push_back(Copy(gradient, gradients->back()));
    };
    for (const memory& end : block_->ends) add(end, &block_->end_gradients);
    if (block_->ends.empty()) add(block_->forked, &block_->forked_gradients);
    return gradient;
  }

  void Forward(const Device& device, const Pass&) override { sum_.Run(device); }

  void Backward(const Device& device) override {
    for (const Execution& copy : copies_) copy.Run(device);
  }

 private:
  const std::shared_ptr<Block> block_;
  Sum sum_;
  std::vector<Execution> copies_;
};

// Joins a branch with a shortcut that takes every stride-th place and leaves further channels as
// they are. In plain layout.
class SubsamplingJoinLayer : public Layer {
 public:
  SubsamplingJoinLayer(const Join& spec, std::shared_ptr<Block> block)
      : stride_(spec.stride), block_(std::move(block)) {}

  memory BuildForward(const Device& device, const memory& source) override {
    joined_ = source.get_desc().dims();
    forked_ = block_->forked.get_desc().dims();
    source_ = Relayout::Import(device, source, PlainLayout(joined_));
    values_ = Relayout::Import(device, block_->forked, PlainLayout(forked_));
    output_ = memory(PlainLayout(joined_), device.engine);
    return output_;
  }

  memory BuildBackward(const Device& device, const memory& gradient, bool) override {
    gradient_ = Relayout::Import(device, gradient, PlainLayout(joined_));
    shortcut_gradient_ = memory(PlainLayout(forked_), device.engine);
    block_->forked_gradients.push_back(shortcut_gradient_);
    return gradient_.inside();
  }

  void Forward(const Device& device, const Pass&) override {
    source_.Run(device);
    values_.Run(device);
    float* const to = Floats(output_);
    const float* const from = Floats(values_.inside());
    std::copy_n(Floats(source_.inside()), output_.get_desc().get_size() / sizeof(float), to);
    ForEachPair([&](int64_t o, int64_t i) { to[o] += from[i]; });
  }

  // The block's layers may overwrite the gradient, so the shortcut's share is taken now.
  void Backward(const Device& device) override {
    gradient_.Run(device);
    float* const to = Floats(shortcut_gradient_);
    const float* const from = Floats(gradient_.inside());
    std::fill_n(to, shortcut_gradient_.get_desc().get_size() / sizeof(float), 0.0f);
    ForEachPair([&](int64_t o, int64_t i) { to[i] = from[o]; });
  }

 private:
  // Calls body(index in the block's output, index in the forked values) for each pair that meets.
  template <typename Body>
  void ForEachPair(Body body) const {
    for (int64_t n = 0; n < joined_[0]; ++n) {
      for (int64_t c = 0; c < forked_[1]; ++c) {
        for (int64_t y = 0; y < joined_[2]; ++y) {
          const int64_t to = ((n * joined_[1] + c) * joined_[2] + y) * joined_[3];
          const int64_t from = ((n * forked_[1] + c) * forked_[2] + y * stride_) * forked_[3];
          for (int64_t x = 0; x < joined_[3]; ++x) body(to + x, from + x * stride_);
        }
      }
    }
  }

  const int64_t stride_;
  const std::shared_ptr<Block> block_;
  memory::dims forked_, joined_;
  memory output_, shortcut_gradient_;
  Relayout source_, values_, gradient_;
};

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(std::shared_ptr<Block> block) : block_(std::move(block)) {}

  memory BuildForward(const Device& device, const memory& source) override {
    ends_ = block_->ends;
    ends_.push_back(source);
    std::vector<memory::desc> descs;
    for (const memory& end : ends_) {
      concat_.arguments.insert({DNNL_ARG_MULTIPLE_SRC + static_cast<int>(descs.size()), end});
      descs.push_back(end.get_desc());
    }
    const dnnl::concat::primitive_desc primitive_desc(kChannels, descs, device.engine);
    const memory output(primitive_desc.dst_desc(), device.engine);
    concat_.primitive = dnnl::concat(primitive_desc);
    concat_.arguments.insert({DNNL_ARG_DST, output});
    return output;
  }

  memory BuildBackward(const Device& device, const memory& gradient, bool) override {
    gradient_ = Relayout::Import(device, gradient, SplittableLayout(gradient.get_desc()));
    const memory::desc whole = gradient_.inside().get_desc();
    memory::dims offsets(whole.dims().size(), 0);
    for (const memory& end : ends_) {
      const memory::desc desc = end.get_desc();
      const memory part(whole.submemory_desc(desc.dims(), offsets), device.engine,
                        gradient_.inside().get_data_handle());
      block_->end_gradients.emplace_back(desc, device.engine);
      copies_.push_back(Copy(part, block_->end_gradients.back()));
      offsets[kChannels] += desc.dims()[kChannels];
    }
    const memory last = block_->end_gradients.back();
    block_->end_gradients.pop_back();
    return last;
  }

  void Forward(const Device& device, const Pass&) override { concat_.Run(device); }

  void Backward(const Device& device) override {
    gradient_.Run(device);
    for (const Execution& copy : copies_) copy.Run(device);
  }

 private:
  static constexpr int kChannels = 1;

  // The layout itself, where each branch's channels are a part of it; else the plain one.
  memory::desc SplittableLayout(const memory::desc& whole) const {
    memory::dims offsets(whole.dims().size(), 0);
    for (const memory& end : ends_) {
      const memory::dims dims = end.get_desc().dims();
      if (whole.submemory_desc(dims, offsets, /*allow_empty=*/true).is_zero()) {
        return PlainLayout(whole.dims());
      }
      offsets[kChannels] += dims[kChannels];
    }
    return whole;
  }

  const std::shared_ptr<Block> block_;
  std::vector<memory> ends_;
  Relayout gradient_;
  Execution concat_;
  std::vector<Execution> copies_;
};

}  // namespace

std::unique_ptr<Layer> MakeFork(std::shared_ptr<Block> block) {
  return std::make_unique<ForkLayer>(std::move(block));
}

std::unique_ptr<Layer> MakeBranch(std::shared_ptr<Block> block) {
  return std::make_unique<BranchLayer>(std::move(block));
}

std::unique_ptr<Layer> MakeJoin(const Join& spec, std::shared_ptr<Block> block,
                                const memory& source) {
  const bool is_sum =
      !block->ends.empty() || block->forked.get_desc().dims() == source.get_desc().dims();
  if (is_sum) return std::make_unique<JoinLayer>(std::move(block));
  return std::make_unique<SubsamplingJoinLayer>(spec, std::move(block));
}

std::unique_ptr<Layer> MakeConcat(std::shared_ptr<Block> block) {
  return std::make_unique<ConcatLayer>(std::move(block));
}

}  // namespace strata::training
