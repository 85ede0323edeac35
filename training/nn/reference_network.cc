#include "training/nn/reference_network.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "training/nn/network/model.h"

namespace strata::training {
namespace {

// Which values of a layer's input contribute to which of its output, for ReferenceNetwork.

// Calls body(output row begin, input row begin, weight, length) for each row of products of a
// convolution: out[x] and in[x * stride] meet in weight for x below length.
template <typename Body>
void ForEachConvolutionRow(const Convolution& kind, const LayerShape& shape, size_t batch,
                           Body body) {
  const Shape& in = shape.input;
  const Shape& out = shape.output;
  const int64_t padding = kind.padding, stride = kind.stride;
  for (size_t n = 0; n < batch; ++n) {
    for (size_t o = 0; o < out.channels; ++o) {
      for (size_t c = 0; c < in.channels; ++c) {
        for (size_t ky = 0; ky < kind.kernel; ++ky) {
          for (size_t kx = 0; kx < kind.kernel; ++kx) {
            const size_t weight = ((o * in.channels + c) * kind.kernel + ky) * kind.kernel + kx;
            const int64_t before = padding - static_cast<int64_t>(kx);  // columns to the left
            const int64_t first = std::max<int64_t>(0, (before + stride - 1) / stride);
            const int64_t last = std::min<int64_t>(out.width, (in.width - 1 + before) / stride + 1);
            for (size_t y = 0; y < out.height; ++y) {
              const int64_t iy = static_cast<int64_t>(y * stride + ky) - padding;
              if (iy < 0 || iy >= in.height || last <= first) continue;
              body(((n * out.channels + o) * out.height + y) * out.width + first,
                   ((n * in.channels + c) * in.height + iy) * in.width + first * stride - before,
                   weight, static_cast<size_t>(last - first));
            }
          }
        }
      }
    }
  }
}

// Calls body(output index, input index) for each pair in a window of a pooling.
template <typename Body>
void ForEachInWindow(const MaxPool& kind, const LayerShape& shape, size_t batch, Body body) {
  const Shape& in = shape.input;
  const Shape& out = shape.output;
  for (size_t plane = 0; plane < batch * in.channels; ++plane) {
    for (size_t y = 0; y < out.height; ++y) {
      for (size_t x = 0; x < out.width; ++x) {
        for (size_t ky = 0; ky < kind.kernel; ++ky) {
          for (size_t kx = 0; kx < kind.kernel; ++kx) {
            const int64_t iy = static_cast<int64_t>(y * kind.stride + ky) - kind.padding;
            const int64_t ix = static_cast<int64_t>(x * kind.stride + kx) - kind.padding;
            if (iy < 0 || iy >= in.height || ix < 0 || ix >= in.width) continue;
            body((plane * out.height + y) * out.width + x,
                 (plane * in.height + iy) * in.width + ix);
          }
        }
      }
    }
  }
}

// Calls body(joined, forked), indices, for each pair that a shortcut joins.
template <typename Body>
void ForEachJoined(const Join& kind, const Shape& forked, const Shape& joined, size_t batch,
                   Body body) {
  for (size_t i = 0; i < batch * forked.Elements(); ++i) {
    const size_t x = i % forked.width, y = i / forked.width % forked.height;
    const size_t plane = i / forked.width / forked.height;
    if (x % kind.stride != 0 || y % kind.stride != 0) continue;
    const size_t sample = plane / forked.channels, channel = plane % forked.channels;
    body(((sample * joined.channels + channel) * joined.height + y / kind.stride) * joined.width +
             x / kind.stride,
         i);
  }
}

// Calls body(index in the output, branch, index in its values) for each value of branches with such
// shapes, their channels one after another.
template <typename Body>
void ForEachConcatenated(const std::vector<Shape>& shapes, size_t batch, Body body) {
  size_t out = 0;
  for (size_t sample = 0; sample < batch; ++sample) {
    for (size_t branch = 0; branch < shapes.size(); ++branch) {
      const size_t elements = shapes[branch].Elements();
      for (size_t i = 0; i < elements; ++i) body(out++, branch, sample * elements + i);
    }
  }
}

}  // namespace

template <typename Real>
ReferenceNetwork<Real>::ReferenceNetwork(const ModelSpec& model, size_t batch)
    : model_(model), batch_(batch) {
  const std::vector<LayerShape> shapes = FollowShapes(model).value();
  int weight = 0, buffer = 0;
  for (const LayerShape& shape : shapes) {
    LayerState state;
    state.shape = shape;
    state.first_weight = weight;
    state.first_buffer = buffer;
    weight += static_cast<int>(shape.weights.size());
    buffer += static_cast<int>(shape.buffers.size());
    layers_.push_back(std::move(state));
  }
  InitializeWith(1);
}

template <typename Real>
void ReferenceNetwork<Real>::InitializeWith(uint64_t seed) {
  weights.clear();
  buffers.clear();
  for (const TensorSpec& tensor : ListWeights(model_)) {
    std::vector<float> values(tensor.Elements());
    Initialize(tensor, seed, weights.size(), absl::MakeSpan(values));
    weights.emplace_back(values.begin(), values.end());
  }
  gradients = weights;
  for (const TensorSpec& tensor : ListBuffers(model_)) {
    buffers.emplace_back(tensor.Elements(), static_cast<Real>(tensor.constant));
  }
}

template <typename Real>
const std::vector<Real>& ReferenceNetwork<Real>::Forward(absl::Span<const Real> images) {
  Values values(images.begin(), images.end());
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerState* state = &layers_[i];
    state->input = std::move(values);
    values.assign(batch_ * state->shape.output.Elements(), Real{0});
    std::visit([&](const auto& kind) { Forward(kind, state, &values); }, model_.layers[i].kind);
  }
  logits_ = std::move(values);
  return logits_;
}

template <typename Real>
double ReferenceNetwork<Real>::Loss(absl::Span<const uint16_t> labels) {
  const size_t classes = logits_.size() / batch_;
  logits_gradient_.assign(logits_.size(), Real{0});
  double loss = 0;
  for (size_t n = 0; n < batch_; ++n) {
    const Real* row = &logits_[n * classes];
    const Real largest = *std::max_element(row, row + classes);
    double total = 0;
    for (size_t c = 0; c < classes; ++c) total += std::exp(double{row[c]} - largest);
    loss += std::log(total) - (double{row[labels[n]]} - largest);
    for (size_t c = 0; c < classes; ++c) {
      logits_gradient_[n * classes + c] = static_cast<Real>(
          std::exp(double{row[c]} - largest) / total - (c == labels[n] ? 1.0 : 0.0));
    }
  }
  return loss;
}

template <typename Real>
std::vector<Real> ReferenceNetwork<Real>::Backward() {
  for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), Real{0});
  Values values = logits_gradient_;
  for (size_t i = layers_.size(); i-- > 0;) {
    Values in(layers_[i].input.size(), Real{0});
    std::visit([&](const auto& kind) { Backward(kind, layers_[i], values, &in); },
               model_.layers[i].kind);
    values = std::move(in);
  }
  return values;
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Convolution& kind, LayerState* state, Values* out) {
  const Values& weight = weights[state->first_weight];
  const size_t plane = size_t{state->shape.output.height} * state->shape.output.width;
  if (kind.bias) {
    const Values& bias = weights[state->first_weight + 1];
    for (size_t i = 0; i < out->size(); ++i) (*out)[i] = bias[i / plane % kind.outputs];
  }
  const Real* in = state->input.data();
  Real* to = out->data();
  const size_t stride = kind.stride;
  ForEachConvolutionRow(kind, state->shape, batch_,
                        [&](size_t o, size_t i, size_t w, size_t length) {
                          const Real factor = weight[w];
                          for (size_t x = 0; x < length; ++x)
                            to[o + x] += factor * in[i + x * stride];
                        });
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Convolution& kind, const LayerState& state,
                                      const Values& out, Values* in) {
  const Values& weight = weights[state.first_weight];
  Values& weight_gradient = gradients[state.first_weight];
  const Real* input = state.input.data();
  const size_t stride = kind.stride;
  ForEachConvolutionRow(kind, state.shape, batch_,
                        [&](size_t o, size_t i, size_t w, size_t length) {
                          const Real factor = weight[w];
                          Real sum = 0;
                          for (size_t x = 0; x < length; ++x) {
                            (*in)[i + x * stride] += factor * out[o + x];
                            sum += input[i + x * stride] * out[o + x];
                          }
                          weight_gradient[w] += sum;
                        });
  if (!kind.bias) return;
  const size_t plane = size_t{state.shape.output.height} * state.shape.output.width;
  Values& bias = gradients[state.first_weight + 1];
  for (size_t i = 0; i < out.size(); ++i) bias[i / plane % kind.outputs] += out[i];
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const InnerProduct& kind, LayerState* state, Values* out) {
  const size_t inputs = state->shape.input.Elements();
  const Values& weight = weights[state->first_weight];
  const Values& bias = weights[state->first_weight + 1];
  for (size_t n = 0; n < batch_; ++n) {
    for (size_t o = 0; o < kind.outputs; ++o) {
      Real sum = bias[o];
      for (size_t i = 0; i < inputs; ++i) {
        sum += weight[o * inputs + i] * state->input[n * inputs + i];
      }
      (*out)[n * kind.outputs + o] = sum;
    }
  }
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const InnerProduct& kind, const LayerState& state,
                                      const Values& out, Values* in) {
  const size_t inputs = state.shape.input.Elements();
  const Values& weight = weights[state.first_weight];
  for (size_t n = 0; n < batch_; ++n) {
    for (size_t o = 0; o < kind.outputs; ++o) {
      const Real gradient = out[n * kind.outputs + o];
      gradients[state.first_weight + 1][o] += gradient;
      for (size_t i = 0; i < inputs; ++i) {
        gradients[state.first_weight][o * inputs + i] += gradient * state.input[n * inputs + i];
        (*in)[n * inputs + i] += gradient * weight[o * inputs + i];
      }
    }
  }
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const MaxPool& kind, LayerState* state, Values* out) {
  constexpr size_t kNone = ~size_t{0};
  state->winners.assign(out->size(), kNone);
  ForEachInWindow(kind, state->shape, batch_, [&](size_t o, size_t i) {
    size_t* winner = &state->winners[o];
    if (*winner == kNone || state->input[i] > state->input[*winner]) *winner = i;
  });
  for (size_t o = 0; o < out->size(); ++o) (*out)[o] = state->input[state->winners[o]];
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const MaxPool&, const LayerState& state, const Values& out,
                                      Values* in) {
  for (size_t o = 0; o < out.size(); ++o) (*in)[state.winners[o]] += out[o];
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const AveragePool& kind, LayerState* state, Values* out) {
  const Real share = Real{1} / (kind.kernel * kind.kernel);
  ForEachInWindow({kind.kernel, kind.stride}, state->shape, batch_,
                  [&](size_t o, size_t i) { (*out)[o] += share * state->input[i]; });
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const AveragePool& kind, const LayerState& state,
                                      const Values& out, Values* in) {
  const Real share = Real{1} / (kind.kernel * kind.kernel);
  ForEachInWindow({kind.kernel, kind.stride}, state.shape, batch_,
                  [&](size_t o, size_t i) { (*in)[i] += share * out[o]; });
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const GlobalAveragePool&, LayerState* state, Values* out) {
  const size_t plane = state->input.size() / out->size();
  for (size_t i = 0; i < state->input.size(); ++i) (*out)[i / plane] += state->input[i] / plane;
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const GlobalAveragePool&, const LayerState&,
                                      const Values& out, Values* in) {
  const size_t plane = in->size() / out.size();
  for (size_t i = 0; i < in->size(); ++i) (*in)[i] = out[i / plane] / plane;
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Relu&, LayerState* state, Values* out) {
  for (size_t i = 0; i < out->size(); ++i) (*out)[i] = std::max(state->input[i], Real{0});
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Relu&, const LayerState& state, const Values& out,
                                      Values* in) {
  for (size_t i = 0; i < out.size(); ++i) (*in)[i] = state.input[i] > 0 ? out[i] : Real{0};
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const BatchNorm& kind, LayerState* state, Values* out) {
  const size_t channels = state->shape.input.channels;
  const size_t plane = size_t{state->shape.input.height} * state->shape.input.width;
  const size_t count = batch_ * plane;
  Values variance(channels);
  state->mean.assign(channels, 0);
  state->scale.assign(channels, 0);
  for (size_t i = 0; i < out->size(); ++i) {
    state->mean[i / plane % channels] += state->input[i] / count;
  }
  for (size_t i = 0; i < out->size(); ++i) {
    const Real distance = state->input[i] - state->mean[i / plane % channels];
    variance[i / plane % channels] += distance * distance / count;
  }
  for (size_t c = 0; c < channels; ++c) {
    state->scale[c] = 1 / std::sqrt(variance[c] + Real{kind.epsilon});
    Real& mean = buffers[state->first_buffer][c];
    Real& running = buffers[state->first_buffer + 1][c];
    mean += Real{kind.momentum} * (state->mean[c] - mean);
    running += Real{kind.momentum} * (variance[c] * count / (count - 1) - running);
  }
  for (size_t i = 0; i < out->size(); ++i) {
    const size_t c = i / plane % channels;
    (*out)[i] =
        (state->input[i] - state->mean[c]) * state->scale[c] * weights[state->first_weight][c] +
        weights[state->first_weight + 1][c];
  }
}

// Ioffe & Szegedy 2015, section 3, with the terms of one channel collected.
template <typename Real>
void ReferenceNetwork<Real>::Backward(const BatchNorm&, const LayerState& state, const Values& out,
                                      Values* in) {
  const size_t channels = state.shape.input.channels;
  const size_t plane = size_t{state.shape.input.height} * state.shape.input.width;
  const size_t count = batch_ * plane;
  Values& scale = gradients[state.first_weight];
  Values& shift = gradients[state.first_weight + 1];
  const auto normalised = [&](size_t i) {
    const size_t c = i / plane % channels;
    return (state.input[i] - state.mean[c]) * state.scale[c];
  };
  for (size_t i = 0; i < out.size(); ++i) {
    scale[i / plane % channels] += out[i] * normalised(i);
    shift[i / plane % channels] += out[i];
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t c = i / plane % channels;
    (*in)[i] = weights[state.first_weight][c] * state.scale[c] *
               (out[i] - shift[c] / count - normalised(i) * scale[c] / count);
  }
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Dropout&, LayerState*, Values*) {
  std::abort();
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Dropout&, const LayerState&, const Values&, Values*) {
  std::abort();
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Flatten&, LayerState* state, Values* out) {
  *out = state->input;
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Flatten&, const LayerState&, const Values& out,
                                      Values* in) {
  *in = out;
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Fork&, LayerState* state, Values* out) {
  block_ = {state->shape.input, state->input, {}, {}};
  *out = state->input;
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Fork&, const LayerState&, const Values& out,
                                      Values* in) {
  for (size_t i = 0; i < out.size(); ++i) (*in)[i] = out[i] + forked_gradient_[i];
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Branch&, LayerState* state, Values* out) {
  block_.shapes.push_back(state->shape.input);
  block_.ends.push_back(state->input);
  *out = block_.values;
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Branch&, const LayerState&, const Values& out,
                                      Values* in) {
  for (size_t i = 0; i < out.size(); ++i) forked_gradient_[i] += out[i];
  *in = std::move(end_gradients_.back());
  end_gradients_.pop_back();
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Join& kind, LayerState* state, Values* out) {
  *out = state->input;
  for (const Values& end : block_.ends) {
    for (size_t i = 0; i < end.size(); ++i) (*out)[i] += end[i];
  }
  if (block_.ends.empty()) {
    ForEachJoined(kind, block_.forked, state->shape.output, batch_,
                  [&](size_t joined, size_t i) { (*out)[joined] += block_.values[i]; });
  }
  state->block = std::move(block_);
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Join& kind, const LayerState& state, const Values& out,
                                      Values* in) {
  *in = out;
  end_gradients_.assign(state.block.ends.size(), out);
  forked_gradient_.assign(state.block.values.size(), Real{0});
  if (!state.block.ends.empty()) return;
  ForEachJoined(kind, state.block.forked, state.shape.output, batch_,
                [&](size_t joined, size_t i) { forked_gradient_[i] = out[joined]; });
}

template <typename Real>
void ReferenceNetwork<Real>::Forward(const Concat&, LayerState* state, Values* out) {
  block_.shapes.push_back(state->shape.input);
  block_.ends.push_back(state->input);
  ForEachConcatenated(block_.shapes, batch_, [&](size_t o, size_t branch, size_t i) {
    (*out)[o] = block_.ends[branch][i];
  });
  state->block = std::move(block_);
}

template <typename Real>
void ReferenceNetwork<Real>::Backward(const Concat&, const LayerState& state, const Values& out,
                                      Values* in) {
  end_gradients_ = state.block.ends;
  forked_gradient_.assign(state.block.values.size(), Real{0});
  ForEachConcatenated(state.block.shapes, batch_, [&](size_t o, size_t branch, size_t i) {
    end_gradients_[branch][i] = out[o];
  });
  *in = std::move(end_gradients_.back());
  end_gradients_.pop_back();
}

template class ReferenceNetwork<float>;
template class ReferenceNetwork<double>;

namespace {

LayerSpec Conv(const char* name, uint32_t outputs, uint32_t kernel, uint32_t stride = 1) {
  return {name, Convolution{
                    .outputs = outputs, .kernel = kernel, .padding = kernel / 2, .stride = stride}};
}

const LayerSpec kFork{"f", Fork{}}, kBranch{"b", Branch{}}, kConcat{"c", Concat{}};
const LayerSpec kFlatten{"flatten", Flatten{}}, kLast{"last", InnerProduct{4}};
constexpr Shape kPlane{2, 6, 5};

LayerCase Inception() {
  return {"Inception",
          {4, 6, 6},
          {Conv("m", 16, 3),
           {"mr", Relu{}},
           kFork,
           Conv("a", 16, 1),
           {"an", BatchNorm{}},
           {"ar", Relu{}},
           kBranch,
           Conv("b0", 8, 1),
           {"bn", BatchNorm{}},
           {"br", Relu{}},
           Conv("b1", 12, 3),
           {"b1n", BatchNorm{}},
           {"b1r", Relu{}},
           {"c2", Branch{}},
           Conv("c0", 4, 5),
           {"cr", Relu{}},
           {"d", Branch{}},
           {"dp", MaxPool{3, 1, 1}},
           Conv("d0", 16, 1),
           {"dr", Relu{}},
           kConcat,
           {"p", MaxPool{3, 2, 1}},
           kFlatten,
           kLast}};
}

}  // namespace

std::vector<LayerCase> SimpleLayerCases() {
  const LayerSpec mix{"mix", Convolution{.outputs = 3, .kernel = 3, .padding = 1}};
  const LayerSpec wide{"wide", Convolution{.outputs = 32, .kernel = 3, .padding = 1}};
  return {
      {"InnerProduct", {7, 1, 1}, {kFlatten, {"a", InnerProduct{5}}, kLast}},
      {"InnerProductOnPlanes", kPlane, {{"a", InnerProduct{5}}, kLast}},
      {"InnerProductOnBlockedPlanes", kPlane, {wide, {"a", InnerProduct{5}}, kLast}},
      {"Convolution",
       kPlane,
       {mix, {"a", Convolution{.outputs = 5, .kernel = 3}}, kFlatten, kLast}},
      {"ConvolutionWide",
       {16, 9, 9},
       {wide, {"a", Convolution{.outputs = 16, .kernel = 5, .padding = 2}}, kFlatten, kLast}},
      {"ConvolutionWithoutBias",
       kPlane,
       {{"a", Convolution{.outputs = 4, .kernel = 2, .padding = 1, .bias = false}},
        kFlatten,
        kLast}},
      {"ConvolutionLikeLeNets",
       {1, 12, 12},
       {{"a", Convolution{.outputs = 6, .kernel = 5, .padding = 2}},
        {"pool", MaxPool{}},
        {"b", Convolution{.outputs = 16, .kernel = 5}},
        kFlatten,
        kLast}},
      {"MaxPool", kPlane, {mix, {"a", MaxPool{}}, kFlatten, kLast}},
      {"MaxPoolOverlapping", kPlane, {wide, {"a", MaxPool{3, 2}}, kFlatten, kLast}},
      {"MaxPoolPadded", kPlane, {mix, {"a", MaxPool{3, 2, 1}}, kFlatten, kLast}},
      {"MaxPoolPaddedWide", {3, 7, 8}, {wide, {"a", MaxPool{3, 1, 1}}, kFlatten, kLast}},
      {"GlobalAveragePool", kPlane, {mix, {"a", GlobalAveragePool{}}, kFlatten, kLast}},
      {"GlobalAveragePoolWide", kPlane, {wide, {"a", GlobalAveragePool{}}, kFlatten, kLast}},
      {"AveragePool", kPlane, {mix, {"a", AveragePool{}}, kFlatten, kLast}},
      {"AveragePoolOverlapping", kPlane, {wide, {"a", AveragePool{3, 1}}, kFlatten, kLast}},
      {"Relu", kPlane, {mix, {"a", Relu{}}, kFlatten, kLast}},
      {"ReluFirst", kPlane, {{"a", Relu{}}, kFlatten, kLast}},
      {"ReluOnFlattenedImages", kPlane, {kFlatten, {"a", Relu{}}, kLast}},
      {"BatchNorm", kPlane, {mix, {"a", BatchNorm{}}, kFlatten, kLast}},
      {"BatchNormWide", kPlane, {wide, {"a", BatchNorm{}}, {"r", Relu{}}, kFlatten, kLast}},
      {"BatchNormFirst", kPlane, {{"a", BatchNorm{}}, kFlatten, kLast}},
      {"ConvolutionWithStride",
       kPlane,
       {{"a", Convolution{.outputs = 4, .kernel = 3, .padding = 1, .stride = 2}}, kFlatten, kLast}},
      {"ConvolutionWideWithStride",
       {3, 8, 9},
       {wide,
        {"a", Convolution{.outputs = 16, .kernel = 3, .padding = 1, .stride = 2}},
        kFlatten,
        kLast}},
      {"Flatten", kPlane, {wide, kFlatten, {"a", InnerProduct{6}}, {"r", Relu{}}, kLast}},
  };
}

std::vector<LayerCase> ShortcutCases() {
  const LayerSpec mix{"mix", Convolution{.outputs = 3, .kernel = 3, .padding = 1}};
  const LayerSpec mix2{"mix2", Convolution{.outputs = 3, .kernel = 3, .padding = 1}};
  return {
      {"Residual",
       kPlane,
       {mix, {"f", Fork{}}, mix2, {"r", Relu{}}, {"j", Join{}}, kFlatten, kLast}},
      {"ResidualOfImages",
       kPlane,
       {{"f", Fork{}},
        {"a", Convolution{.outputs = 2, .kernel = 3, .padding = 1}},
        {"j", Join{}},
        {"r", Relu{}},
        kFlatten,
        kLast}},
      {"ResidualAfterReluBeforeRelu",
       kPlane,
       {mix,
        {"r1", Relu{}},
        {"f", Fork{}},
        {"r2", Relu{}},
        mix2,
        {"j", Join{}},
        {"r3", Relu{}},
        kFlatten,
        kLast}},
      {"ResidualWideWithStride",
       {3, 7, 6},
       {{"c", Convolution{.outputs = 16, .kernel = 1}},
        {"r1", Relu{}},
        {"f", Fork{}},
        {"a", Convolution{.outputs = 32, .kernel = 3, .padding = 1, .stride = 2, .bias = false}},
        {"bn", BatchNorm{}},
        {"j", Join{2}},
        {"r2", Relu{}},
        {"f2", Fork{}},
        {"b", Convolution{.outputs = 32, .kernel = 3, .padding = 1}},
        {"j2", Join{}},
        kFlatten,
        kLast}},
  };
}

std::vector<LayerCase> ConcatCases() {
  return {
      {"ConcatOfNarrow",
       kPlane,
       {Conv("m", 3, 3), kFork, Conv("a", 2, 1), kBranch, Conv("b0", 5, 3), kConcat, kFlatten,
        kLast}},
      {"ConcatOfWide",
       {3, 5, 4},
       {Conv("m", 16, 3),
        kFork,
        Conv("a", 32, 1),
        kBranch,
        Conv("b0", 16, 3),
        kConcat,
        {"r", Relu{}},
        Conv("m2", 16, 1),
        kFlatten,
        kLast}},
      {"ConcatOfImagesAndBranchesOfAllKinds",
       kPlane,
       {kFork,
        Conv("a", 2, 1),
        {"ar", Relu{}},
        kBranch,
        {"bp", MaxPool{3, 1, 1}},
        {"br", Relu{}},
        kBranch,
        {"d", Branch{}},
        {"rr", Relu{}},
        {"n", BatchNorm{}},
        kConcat,
        {"r", Relu{}},
        Conv("m", 3, 3),
        kFlatten,
        kLast}},
      // Both branches overwrite their gradients.
      {"ConcatOfRelus",
       kPlane,
       {Conv("m", 16, 3),
        kFork,
        Conv("a", 16, 3),
        {"ar", Relu{}},
        kBranch,
        {"br", Relu{}},
        kConcat,
        kFlatten,
        kLast}},
      Inception(),
  };
}

std::vector<LayerCase> JoinCases() {
  return {
      {"Bottleneck",
       {8, 6, 5},
       {Conv("m", 16, 1),
        {"mr", Relu{}},
        kFork,
        Conv("a", 16, 1),
        {"an", BatchNorm{}},
        {"ar", Relu{}},
        Conv("a2", 16, 3, 2),
        {"a2n", BatchNorm{}},
        {"a2r", Relu{}},
        Conv("a3", 32, 1),
        {"a3n", BatchNorm{}},
        kBranch,
        Conv("s", 32, 1, 2),
        {"sn", BatchNorm{}},
        {"j", Join{}},
        {"r", Relu{}},
        {"f2", Fork{}},
        Conv("e", 32, 1),
        {"j2", Join{}},
        {"r2", Relu{}},
        kFlatten,
        kLast}},
      {"JoinOfThreeBranches",
       kPlane,
       {Conv("m", 4, 3),
        kFork,
        {"ar", Relu{}},
        kBranch,
        Conv("b0", 4, 1),
        {"br", Relu{}},
        {"d", Branch{}},
        {"j", Join{}},
        {"r", Relu{}},
        kFlatten,
        kLast}},
  };
}

}  // namespace strata::training
