#ifndef STRATA_KERNELS_CODEC_ENCODER_H_
#define STRATA_KERNELS_CODEC_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/wire/payload.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// How vectors are compressed. With p = x + e, where e is what was not sent before:
enum class Compression : uint8_t {
  kNone,      // p as it is; nothing is kept
  kFloat16,   // halves, blocks scaled by a power of two
  kBFloat16,  //
  kInt8,      // round(p / scale), scale = max |p| of the block / 127, rounded up
  kOneBit,    // EF-SignSGD (Karimireddy et al. 2019, algorithm 2) per block: mean |p| * sign(p)
  kTopK,      // the k largest |p|; of equal ones those of lowest index; zeros are never sent
  kDgc,       // Deep Gradient Compression (Lin et al. 2017), momentum correction and factor
              // masking: u = m u + x; v = v + u; the k largest |v| are sent, u and v are 0 there
};

struct CompressionOptions {
  Compression compression = Compression::kNone;
  // Whether what rounding loses is kept and sent later. Only fp16, bf16 and int8 may do without:
  // a ring that encodes at every hop must.
  bool error_feedback = true;
  double density = 0.01;  // kTopK, kDgc: k = round(density * elements), at least 1; up to 0.5
  float momentum = 0.9f;  // kDgc: m, in [0, 1)

  // Errors: InvalidArgument naming the option.
  absl::Status Validate() const;
};

// What the payloads look like on the wire.
wire::Codec CodecOf(Compression compression);
// Vectors of state per encoder: 0, e, or v and u.
int StateVectors(const CompressionOptions& options);
// The density of an epoch, from 0: 25, 6.25, 1.6, 0.4, 0.1 %, never below `density`.
double DgcDensity(int epoch, double density);

// Memory for the choice of the largest elements, which encoders of one thread share.
class EncoderScratch {
 private:
  friend class Encoder;
  std::vector<uint32_t> candidates_, magnitudes_;
};

// Encodes the vectors of one chunk, one after the other, for one receiver that adds up what it
// decodes: gradient sums (pushes), or the differences between successive versions of the weights
// (answers). What a payload lacks stays here and is part of the next, so that the sum of what was
// decoded plus what is kept is the sum of what was given, but for the rounding of those additions.
// For DGC that holds of v and the u of every step.
//
// Each call is a step: a payload that must be sent again is kept by the sender, not encoded again.
// The same inputs give the same payloads on every device and at any width of its vectors.
// Not thread-safe. Memory: StateVectors(options) times the chunk.
class Encoder {
 public:
  // Errors: those of options.Validate(). `kernels` must outlive the encoder.
  static absl::StatusOr<std::unique_ptr<Encoder>> Create(const CompressionOptions& options,
                                                         size_t elements, const Kernels& kernels);

  size_t elements() const { return elements_; }
  wire::Codec codec() const { return CodecOf(options_.compression); }
  size_t encoded_bytes_max() const { return wire::EncodedBytesMax(codec(), elements_); }

  // Writes the payload of `x` to the front of `payload` and returns its size. x.size() is
  // elements(), payload.size() at least encoded_bytes_max().
  // Errors: InvalidArgument if an element, alone or with what was kept, is NaN, infinite or beyond
  // the format's range; what was kept is lost then, and every later call is refused with
  // FailedPrecondition until Restore.
  absl::StatusOr<size_t> Encode(absl::Span<const float> x, EncoderScratch* scratch,
                                absl::Span<std::byte> payload);

  // From the next step on (a warm-up's density). Errors: InvalidArgument outside of (0, 0.5].
  absl::Status SetDensity(double density);

  // What is kept: StateVectors vectors of elements() floats, e or v and then u.
  absl::Span<const float> State(int vector) const;
  // Goes on from a state that was read before; no vectors: from zeros. Errors: InvalidArgument if
  // number or size of the vectors are others or an element is NaN or infinite; nothing has changed
  // then.
  absl::Status Restore(absl::Span<const absl::Span<const float>> state);

 private:
  Encoder(const CompressionOptions& options, size_t elements, const Kernels& kernels);

  bool EncodeDense(const float* x, std::byte* payload);
  bool EncodeLargest(const float* x, EncoderScratch* scratch, std::byte* payload, size_t* bytes);
  bool WriteLargest(absl::Span<const uint32_t> candidates, EncoderScratch* scratch, size_t k,
                    std::byte* payload);
  absl::Status Failed(absl::Span<const float> x);
  float* StateAt(int vector) { return state_.empty() ? nullptr : &state_[vector * elements_]; }

  CompressionOptions options_;
  size_t elements_;
  const Kernels& kernels_;
  std::vector<float> state_;  // one vector after the other
  bool state_is_lost_ = false;
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CODEC_ENCODER_H_
