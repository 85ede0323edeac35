#ifndef STRATA_KERNELS_CODEC_KERNELS_H_
#define STRATA_KERNELS_CODEC_KERNELS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata::kernels {

// The encoded vector, p, and the new state.
enum class Feedback : uint8_t {
  kNone,      // p = x; the state is not used
  kResidual,  // p = x + state; state = p - decoded: what was not sent is part of the next p
  kFollow,    // p = x - state; state = state + decoded: the state is what the receiver has
};

// The arithmetic of one codec whose payload has a code for every element. common/wire/payload.h
// defines the payloads' layout; they may start at any byte address.
struct DenseCodec {
  // Writes the payload of p, and changes `state` by the decoded payload, as `feedback` says.
  // Returns false if an element of p is NaN, infinite or too large for the format; payload and
  // state are unspecified then. x and state do not overlap.
  bool (*encode)(const float* x, Feedback feedback, float* state, size_t n, std::byte* payload);

  // Checks that `payload` decodes to finite values, i.e. that scales and codes are valid by
  // payload.h. Returns the index of the first block of kCodecBlock elements that does not, or
  // CodecBlocks(n).
  size_t (*check)(const std::byte* payload, size_t n);

  // out[i] = base[i] + decoded[i], or decoded[i] if base is null. `base` may be `out`. `check` has
  // accepted the payload.
  void (*decode)(const std::byte* payload, const float* base, float* out, size_t n);
};

// The vectors from which the sender of sparse payloads chooses elements.
struct Accumulators {
  Feedback feedback = Feedback::kResidual;  // not kNone
  float* state = nullptr;     // kResidual: what was not sent (top-k's e, DGC's v), the next p
  float* momentum = nullptr;  // DGC's u, which is added instead of x; otherwise null
  float factor = 0.0f;        // momentum = factor * momentum + x
};

// Candidate elements, by ascending index: the bits of p[indices[j]] are bits[j]. Both arrays have
// room for kCandidateSlack more than their content.
struct Candidates {
  uint32_t* indices = nullptr;
  uint32_t* bits = nullptr;
};

// The arithmetic of sparse payloads: the elements of largest magnitude. Magnitudes are the bits of
// |p| as an integer, which order as the numbers do; thresholds are at least 1 and at most 2^31.
struct SparseCodec {
  // Computes p and stores it as the state (kResidual; kFollow stores nothing). Writes the elements
  // that reach the threshold to `to` and returns their number.
  size_t (*accumulate)(const float* x, const Accumulators& accumulators, uint32_t threshold,
                       const Candidates& to, size_t n);

  // The same for an existing p.
  size_t (*select)(const float* p, uint32_t threshold, const Candidates& to, size_t n);

  // Returns SampleCount(n) and the bits of p at that many places: runs of kSampleRun elements that
  // begin n / runs apart. Changes nothing.
  size_t (*sample)(const float* x, const Accumulators& accumulators, uint32_t* bits, size_t n);

  // Returns how many of n bits have a magnitude that reaches the threshold.
  size_t (*count)(const uint32_t* bits, size_t n, uint32_t threshold);

  // Writes those of n bits whose magnitude reaches `low` but not `high` to `to`, which has room for
  // n + kCandidateSlack and may be `bits`; returns their number.
  size_t (*between)(const uint32_t* bits, size_t n, uint32_t low, uint32_t high, uint32_t* to);

  // Keeps those of n candidates that reach the threshold; returns their number.
  size_t (*keep)(const Candidates& candidates, size_t n, uint32_t threshold);

  // Returns whether `count` indices ascend strictly and the last is below n.
  bool (*indices_ascend)(const std::byte* indices, size_t count, size_t n);
};

inline constexpr size_t kCandidateSlack = 64;
inline constexpr size_t kSampleRun = 16;
inline constexpr size_t kSampleMax = 4096;
// About every 16th element, at most kSampleMax.
constexpr size_t SampleCount(size_t n) {
  return std::min(n / 16, kSampleMax) / kSampleRun * kSampleRun;
}

// The codec functions of one device. Like those of Kernels they give the same bits at any vector
// width: products are exact in fp32 by choice of the scales, and sums have a fixed order.
struct CodecKernels {
  DenseCodec float16, bfloat16, int8, one_bit;
  SparseCodec sparse;
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CODEC_KERNELS_H_
