#include "kernels/testing/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/wire/payload.h"

namespace strata::kernels::reference {

namespace {

float TreeAt(absl::Span<const float* const> inputs, size_t i) {
  if (inputs.size() == 1) return inputs[0][i];
  size_t left = 1;
  while (left * 2 < inputs.size()) left *= 2;
  return TreeAt(inputs.subspan(0, left), i) + TreeAt(inputs.subspan(left), i);
}

}  // namespace

void Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = TreeAt(inputs, i);
}

void Optimize(const OptimizerParams& p, const OptimizerStep& step, const float* gradient_sum,
              const float* w_in, float* w_out, float* state0, float* state1, size_t n) {
  const double t = static_cast<double>(step.update);
  const float correct0 = static_cast<float>(1.0 / (1.0 - std::pow(double{p.beta1}, t)));
  const float correct1 = static_cast<float>(1.0 / (1.0 - std::pow(double{p.beta2}, t)));
  for (size_t i = 0; i < n; ++i) {
    const float w = w_in[i];
    const float g = step.gradient_scale * gradient_sum[i];
    const float decayed = g + step.decay * w;
    if (p.kind == OptimizerKind::kMean) {
      w_out[i] = g;
      continue;
    }
    if (p.kind == OptimizerKind::kRmspropWarmup) {
      state0[i] = p.beta2 * state0[i] + (1.0f - p.beta2) * (decayed * decayed);
      const float share = step.sgd_share + step.rms_share / (std::sqrt(state0[i]) + p.epsilon);
      state1[i] = p.momentum * state1[i] - share * decayed;
      w_out[i] = w + step.lr * state1[i];
      continue;
    }
    if (p.kind == OptimizerKind::kFtrl) {
      w_out[i] = w;
      if (step.lr < 1e-30f) continue;
      const float squares = state1[i] + decayed * decayed;
      const float root_before = std::sqrt(state1[i]), root = std::sqrt(squares);
      const float slope_before = (p.beta + root_before) / step.lr + p.l2;
      const float slope = (p.beta + root) / step.lr + p.l2;
      const float of_weight = -(w * slope_before) - std::copysign(p.l1, w);
      const float sigma = (root - root_before) / step.lr;
      const float z = (w == 0 ? state0[i] : of_weight) + (decayed - sigma * w);
      const float beyond = z - std::copysign(p.l1, z);
      w_out[i] = std::fabs(z) <= p.l1 ? 0.0f : -(beyond / slope);
      state0[i] = z;
      state1[i] = squares;
      continue;
    }
    float direction = decayed;
    if (p.kind == OptimizerKind::kAdagrad) {
      state0[i] = state0[i] + decayed * decayed;
      direction = decayed / (std::sqrt(state0[i] + p.initial_accumulator) + p.epsilon);
    } else if (p.kind == OptimizerKind::kMomentumSgd) {
      state0[i] = p.momentum * state0[i] + decayed;
      direction = state0[i];
    } else if (p.kind == OptimizerKind::kNesterov) {
      state0[i] = p.momentum * state0[i] + decayed;
      direction = decayed + p.momentum * state0[i];
    } else if (p.kind == OptimizerKind::kAdam || p.kind == OptimizerKind::kAdamW) {
      const float moment = p.kind == OptimizerKind::kAdam ? decayed : g;
      state0[i] = p.beta1 * state0[i] + (1.0f - p.beta1) * moment;
      state1[i] = p.beta2 * state1[i] + (1.0f - p.beta2) * (moment * moment);
      direction = (state0[i] * correct0) / (std::sqrt(state1[i] * correct1) + p.epsilon);
      if (p.kind == OptimizerKind::kAdamW) direction = direction + step.decay * w;
    }
    w_out[i] = w - step.lr * direction;
  }
}

void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float g = scale * gradient_sum[i];
    float lambda = how.lambda;
    if (how.adaptive) {
      mean_square[i] = how.decay * mean_square[i] + (1.0f - how.decay) * (g * g);
      lambda = how.lambda / std::sqrt(mean_square[i] + 1e-7f);
    }
    out[i] = g + lambda * g * g * (w[i] - w_base[i]);
  }
}

namespace {

using wire::kCodecBlock;

template <typename T>
T Get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void Put(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

// The encoded value and the new state.
struct Input {
  const float* x;
  Feedback feedback;
  float* state;

  float operator[](size_t i) const {
    if (feedback == Feedback::kResidual) return x[i] + state[i];
    if (feedback == Feedback::kFollow) return x[i] - state[i];
    return x[i];
  }
  void Sent(size_t i, float decoded) const {
    if (feedback == Feedback::kResidual) state[i] = (*this)[i] - decoded;
    if (feedback == Feedback::kFollow) state[i] = state[i] + decoded;
  }
};

// Calls encode(first, count) of every block; stops where it says false.
template <typename Encode>
bool ForEachBlock(size_t n, Encode encode) {
  for (size_t at = 0; at < n; at += kCodecBlock) {
    if (!encode(at, std::min(kCodecBlock, n - at))) return false;
  }
  return true;
}

// The largest magnitude of a block; NaN where there is one.
float Largest(const Input& input, size_t at, size_t count) {
  float largest = 0;
  for (size_t i = at; i < at + count; ++i) {
    const float magnitude = std::abs(input[i]);
    if (std::isnan(magnitude)) return magnitude;
    largest = std::max(largest, magnitude);
  }
  return largest;
}

// A float of 16 bits: sign, exponent, kDigits bits of mantissa; normal from 2^kExponentMin on.
template <int kDigits, int kExponentMin>
uint16_t HalfOf(float value) {
  const double magnitude = std::abs(double{value});
  const int exponent =
      magnitude == 0 ? kExponentMin : std::max(std::ilogb(magnitude), kExponentMin);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, kDigits - exponent)));
  const int bits = ((exponent - kExponentMin) << kDigits) + units;
  return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}
template <int kDigits, int kExponentMin>
float FromHalf(uint16_t half) {
  const int exponent = (half & 0x7fff) >> kDigits, digits = half & ((1 << kDigits) - 1);
  const int units = exponent == 0 ? digits : digits + (1 << kDigits);
  const double magnitude = std::ldexp(units, std::max(exponent, 1) - 1 + kExponentMin - kDigits);
  return static_cast<float>((half & 0x8000) != 0 ? -magnitude : magnitude);
}
constexpr auto kToFloat16 = HalfOf<10, -14>;
constexpr auto kFromFloat16 = FromHalf<10, -14>;
constexpr auto kToBFloat16 = HalfOf<7, -126>;
constexpr auto kFromBFloat16 = FromHalf<7, -126>;

bool EncodeFloat16(const float* x, Feedback feedback, float* state, size_t n, std::byte* payload) {
  const Input input = {x, feedback, state};
  std::byte* codes = payload + 4 * wire::CodecBlocks(n);
  return ForEachBlock(n, [&](size_t at, size_t count) {
    const float largest = Largest(input, at, count);
    if (!(largest < 0x1.ffep127f)) return false;
    const int up = largest == 0 ? 125 : std::clamp(14 - std::ilogb(largest), -112, 125);
    const float scale = std::ldexp(1.0f, -up);
    Put(scale, payload + at / kCodecBlock * 4);
    for (size_t i = at; i < at + count; ++i) {
      const float p = input[i];
      const uint16_t half = kToFloat16(std::ldexp(p, up));
      Put(half, codes + 2 * i);
      input.Sent(i, kFromFloat16(half) * scale);
    }
    return true;
  });
}

bool EncodeBFloat16(const float* x, Feedback feedback, float* state, size_t n, std::byte* payload) {
  const Input input = {x, feedback, state};
  for (size_t i = 0; i < n; ++i) {
    const float p = input[i];
    if (!(std::abs(p) < 0x1.ffp127f)) return false;
    const uint16_t half = kToBFloat16(p);
    Put(half, payload + 2 * i);
    input.Sent(i, kFromBFloat16(half));
  }
  return true;
}

bool EncodeInt8(const float* x, Feedback feedback, float* state, size_t n, std::byte* payload) {
  const Input input = {x, feedback, state};
  std::byte* codes = payload + 4 * wire::CodecBlocks(n);
  return ForEachBlock(n, [&](size_t at, size_t count) {
    const float largest = Largest(input, at, count);
    if (!std::isfinite(largest)) return false;
    // Up to a multiple of 256 units in the last place.
    const auto units = std::bit_cast<uint32_t>(largest / 127.0f);
    const float scale = std::clamp(std::bit_cast<float>((units + 255) / 256 * 256),
                                   wire::kInt8ScaleMin, wire::kInt8ScaleMax);
    Put(scale, payload + at / kCodecBlock * 4);
    const float inverse = 1.0f / scale;
    for (size_t i = at; i < at + count; ++i) {
      const float p = input[i];
      const int code = static_cast<int>(std::nearbyint(p * inverse));
      codes[i] = static_cast<std::byte>(code);
      input.Sent(i, code * scale);
    }
    return true;
  });
}

bool EncodeOneBit(const float* x, Feedback feedback, float* state, size_t n, std::byte* payload) {
  const Input input = {x, feedback, state};
  std::byte* bits = payload + 4 * wire::CodecBlocks(n);
  std::fill(bits, bits + (n + 7) / 8, std::byte{0});
  return ForEachBlock(n, [&](size_t at, size_t count) {
    float partial[32] = {};
    for (size_t i = 0; i < count; ++i) partial[i % 32] += std::abs(input[at + i]);
    for (size_t half = 16; half > 0; half /= 2) {
      for (size_t j = 0; j < half; ++j) partial[j] += partial[j + half];
    }
    if (!(partial[0] <= std::numeric_limits<float>::max())) return false;
    const float scale = std::max(partial[0] / static_cast<float>(count), wire::kOneBitScaleZero);
    Put(scale, payload + at / kCodecBlock * 4);
    const float value = scale == wire::kOneBitScaleZero ? 0.0f : scale;
    for (size_t i = at; i < at + count; ++i) {
      const float p = input[i];
      if (p < 0) bits[i / 8] |= static_cast<std::byte>(1 << (i % 8));
      input.Sent(i, (p < 0 ? -value : value));
    }
    return true;
  });
}

// decoded(i) onto base.
template <typename Decoded>
void Write(const float* base, float* out, size_t n, Decoded decoded) {
  for (size_t i = 0; i < n; ++i) out[i] = base == nullptr ? decoded(i) : base[i] + decoded(i);
}

float ScaleOf(const std::byte* payload, size_t i) {
  return Get<float>(payload + i / kCodecBlock * 4);
}

void DecodeFloat16(const std::byte* payload, const float* base, float* out, size_t n) {
  const std::byte* codes = payload + 4 * wire::CodecBlocks(n);
  Write(base, out, n,
        [&](size_t i) { return kFromFloat16(Get<uint16_t>(codes + 2 * i)) * ScaleOf(payload, i); });
}
void DecodeBFloat16(const std::byte* payload, const float* base, float* out, size_t n) {
  Write(base, out, n, [&](size_t i) { return kFromBFloat16(Get<uint16_t>(payload + 2 * i)); });
}
void DecodeInt8(const std::byte* payload, const float* base, float* out, size_t n) {
  const std::byte* codes = payload + 4 * wire::CodecBlocks(n);
  Write(base, out, n, [&](size_t i) { return Get<int8_t>(codes + i) * ScaleOf(payload, i); });
}
void DecodeOneBit(const std::byte* payload, const float* base, float* out, size_t n) {
  const std::byte* bits = payload + 4 * wire::CodecBlocks(n);
  Write(base, out, n, [&](size_t i) {
    const float scale = ScaleOf(payload, i);
    const float value = scale == wire::kOneBitScaleZero ? 0.0f : scale;
    return (Get<uint8_t>(bits + i / 8) >> (i % 8) & 1) != 0 ? -value : value;
  });
}

bool IsPowerOfTwo(float scale) {
  int exponent;
  return std::frexp(scale, &exponent) == 0.5f;
}

// The block of the first element or scale that is not good.
template <typename ScaleIsGood, typename CodeIsGood>
size_t FirstBad(const std::byte* payload, size_t n, ScaleIsGood scale_is_good,
                CodeIsGood code_is_good) {
  for (size_t block = 0; block < wire::CodecBlocks(n); ++block) {
    if (!scale_is_good(ScaleOf(payload, block * kCodecBlock))) return block;
    for (size_t i = block * kCodecBlock; i < std::min(n, (block + 1) * kCodecBlock); ++i) {
      if (!code_is_good(i)) return block;
    }
  }
  return wire::CodecBlocks(n);
}

size_t CheckFloat16(const std::byte* payload, size_t n) {
  const std::byte* codes = payload + 4 * wire::CodecBlocks(n);
  return FirstBad(
      payload, n, [](float s) { return s >= 0x1p-125f && s <= 0x1p112f && IsPowerOfTwo(s); },
      [&](size_t i) { return std::abs(kFromFloat16(Get<uint16_t>(codes + 2 * i))) < 65536; });
}
size_t CheckBFloat16(const std::byte* payload, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if ((Get<uint16_t>(payload + 2 * i) & 0x7fff) >= 0x7f80) return i / kCodecBlock;
  }
  return wire::CodecBlocks(n);
}
size_t CheckInt8(const std::byte* payload, size_t n) {
  const std::byte* codes = payload + 4 * wire::CodecBlocks(n);
  return FirstBad(
      payload, n,
      [](float s) {
        return s >= wire::kInt8ScaleMin && s <= wire::kInt8ScaleMax &&
               std::bit_cast<uint32_t>(s) % 256 == 0;
      },
      [&](size_t i) { return codes[i] != std::byte{0x80}; });
}
size_t CheckOneBit(const std::byte* payload, size_t n) {
  const std::byte* bits = payload + 4 * wire::CodecBlocks(n);
  return FirstBad(
      payload, n,
      [](float s) { return s >= wire::kOneBitScaleZero && s <= std::numeric_limits<float>::max(); },
      [&](size_t i) {
        const bool last = i + 1 == n && n % 8 != 0;
        return !last || Get<uint8_t>(bits + i / 8) >> (n % 8) == 0;
      });
}

uint32_t MagnitudeOf(uint32_t bits) { return bits & 0x7fffffff; }

size_t Append(float p, size_t i, uint32_t threshold, const Candidates& to, size_t count) {
  const auto bits = std::bit_cast<uint32_t>(p);
  if (MagnitudeOf(bits) < threshold) return 0;
  to.indices[count] = static_cast<uint32_t>(i);
  to.bits[count] = bits;
  return 1;
}

size_t Select(const float* p, uint32_t threshold, const Candidates& to, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) count += Append(p[i], i, threshold, to, count);
  return count;
}

size_t Between(const uint32_t* bits, size_t n, uint32_t low, uint32_t high, uint32_t* to) {
  return std::copy_if(bits, bits + n, to,
                      [&](uint32_t value) {
                        return MagnitudeOf(value) >= low && MagnitudeOf(value) < high;
                      }) -
         to;
}

size_t Count(const uint32_t* bits, size_t n, uint32_t threshold) {
  return std::count_if(bits, bits + n,
                       [&](uint32_t value) { return MagnitudeOf(value) >= threshold; });
}

size_t Keep(const Candidates& candidates, size_t n, uint32_t threshold) {
  size_t count = 0;
  for (size_t j = 0; j < n; ++j) {
    count += Append(std::bit_cast<float>(candidates.bits[j]), candidates.indices[j], threshold,
                    candidates, count);
  }
  return count;
}

// p[i], and the momentum that belongs to it.
float Step(const float* x, const Accumulators& to, size_t i, float* momentum) {
  if (to.feedback == Feedback::kFollow) return x[i] - to.state[i];
  *momentum = to.momentum == nullptr ? x[i] : to.factor * to.momentum[i] + x[i];
  return to.state[i] + *momentum;
}

size_t Accumulate(const float* x, const Accumulators& to, uint32_t threshold,
                  const Candidates& candidates, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    float momentum;
    const float p = Step(x, to, i, &momentum);
    count += Append(p, i, threshold, candidates, count);
    if (to.feedback == Feedback::kFollow) continue;
    to.state[i] = p;
    if (to.momentum != nullptr) to.momentum[i] = momentum;
  }
  return count;
}

size_t Sample(const float* x, const Accumulators& to, uint32_t* bits, size_t n) {
  const size_t count = SampleCount(n);
  for (size_t j = 0; j < count; ++j) {
    float momentum;
    const size_t run = j / kSampleRun, stride = n / (count / kSampleRun);
    bits[j] = std::bit_cast<uint32_t>(Step(x, to, run * stride + j % kSampleRun, &momentum));
  }
  return count;
}

bool IndicesAscend(const std::byte* indices, size_t count, size_t n) {
  for (size_t j = 0; j < count; ++j) {
    const auto index = Get<uint32_t>(indices + 4 * j);
    if (index >= n || (j > 0 && index <= Get<uint32_t>(indices + 4 * (j - 1)))) return false;
  }
  return true;
}

}  // namespace

const CodecKernels& Codecs() {
  static constexpr CodecKernels kCodecs = {
      .float16 = {EncodeFloat16, CheckFloat16, DecodeFloat16},
      .bfloat16 = {EncodeBFloat16, CheckBFloat16, DecodeBFloat16},
      .int8 = {EncodeInt8, CheckInt8, DecodeInt8},
      .one_bit = {EncodeOneBit, CheckOneBit, DecodeOneBit},
      .sparse = {Accumulate, Select, Sample, Count, Between, Keep, IndicesAscend}};
  return kCodecs;
}

}  // namespace strata::kernels::reference
