// The two ends of a residual block's shortcut: what Fork meets goes past the layers in between and
// is added to what they make of it (He et al. 2016). Where the block has more channels or fewer
// places, the shortcut takes every stride-th place and leaves the further channels as they are
// (their option A), so it has no weights.

#include <algorithm>

#include "worker/nn/layer.h"

namespace strata::worker {
namespace {

using dnnl::memory;

float* Floats(const memory& values) { return static_cast<float*>(values.get_data_handle()); }

// Calls body(index in the block's output, index in the forked values) for each pair that meets;
// both in plain layout.
template <typename Body>
void ForEachPair(const memory::dims& forked, const memory::dims& joined, int64_t stride,
                 Body body) {
  for (int64_t n = 0; n < joined[0]; ++n) {
    for (int64_t c = 0; c < forked[1]; ++c) {
      for (int64_t y = 0; y < joined[2]; ++y) {
        const int64_t to = ((n * joined[1] + c) * joined[2] + y) * joined[3];
        const int64_t from = ((n * forked[1] + c) * forked[2] + y * stride) * forked[3];
        for (int64_t x = 0; x < joined[3]; ++x) body(to + x, from + x * stride);
      }
    }
  }
}

class ForkLayer : public Layer {
 public:
  explicit ForkLayer(std::shared_ptr<Shortcut> shortcut) : shortcut_(std::move(shortcut)) {}

  memory BuildForward(const Device&, const memory& source) override {
    shortcut_->values = source;
    return source;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    gradient_ =
        Relayout::Import(device, gradient, PlainLayout(shortcut_->values.get_desc().dims()));
    return gradient_.inside();
  }

  void Forward(const Device&, const Pass&) override {}

  void Backward(const Device& device) override {
    if (!gradient_.inside()) return;
    gradient_.Run(device);
    float* gradient = Floats(gradient_.inside());
    const std::vector<float>& shortcut = shortcut_->gradient;
    for (size_t i = 0; i < shortcut.size(); ++i) gradient[i] += shortcut[i];
  }

 private:
  const std::shared_ptr<Shortcut> shortcut_;
  Relayout gradient_;
};

class JoinLayer : public Layer {
 public:
  JoinLayer(const Join& spec, std::shared_ptr<Shortcut> shortcut)
      : stride_(spec.stride), shortcut_(std::move(shortcut)) {}

  memory BuildForward(const Device& device, const memory& source) override {
    joined_ = source.get_desc().dims();
    forked_ = shortcut_->values.get_desc().dims();
    source_ = Relayout::Import(device, source, PlainLayout(joined_));
    values_ = Relayout::Import(device, shortcut_->values, PlainLayout(forked_));
    output_ = memory(PlainLayout(joined_), device.engine);
    return output_;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    gradient_ = Relayout::Import(device, gradient, PlainLayout(joined_));
    shortcut_->gradient.resize(PlainLayout(forked_).get_size() / sizeof(float));
    return gradient_.inside();
  }

  void Forward(const Device& device, const Pass&) override {
    source_.Run(device);
    values_.Run(device);
    float* const to = Floats(output_);
    const float* const from = Floats(values_.inside());
    std::copy_n(Floats(source_.inside()), output_.get_desc().get_size() / sizeof(float), to);
    ForEachPair(forked_, joined_, stride_, [&](int64_t o, int64_t i) { to[o] += from[i]; });
  }

  // The block's layers may overwrite the gradient, so the shortcut's share is taken now.
  void Backward(const Device& device) override {
    if (!gradient_.inside()) return;
    gradient_.Run(device);
    std::vector<float>& to = shortcut_->gradient;
    const float* const from = Floats(gradient_.inside());
    std::fill(to.begin(), to.end(), 0.0f);
    ForEachPair(forked_, joined_, stride_, [&](int64_t o, int64_t i) { to[i] = from[o]; });
  }

 private:
  const int64_t stride_;
  const std::shared_ptr<Shortcut> shortcut_;
  memory::dims forked_, joined_;
  memory output_;
  Relayout source_, values_, gradient_;
};

}  // namespace

std::unique_ptr<Layer> MakeFork(std::shared_ptr<Shortcut> shortcut) {
  return std::make_unique<ForkLayer>(std::move(shortcut));
}

std::unique_ptr<Layer> MakeJoin(const Join& spec, std::shared_ptr<Shortcut> shortcut) {
  return std::make_unique<JoinLayer>(spec, std::move(shortcut));
}

}  // namespace strata::worker
