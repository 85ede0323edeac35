#ifndef STRATA_TRAINING_NN_TESTING_REFERENCE_WINDOWS_H_
#define STRATA_TRAINING_NN_TESTING_REFERENCE_WINDOWS_H_

// Which values of a layer's input meet which of its output, for ReferenceNetwork.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/nn/network/model.h"

namespace strata::worker {

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

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_TESTING_REFERENCE_WINDOWS_H_
