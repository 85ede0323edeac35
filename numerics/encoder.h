#ifndef STRATA_NUMERICS_ENCODER_H_
#define STRATA_NUMERICS_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/wire/payload.h"
#include "kernels/kernels.h"
#include "proto/job.pb.h"

namespace strata::numerics {

// How vectors are compressed; p is the vector to send, see Encoder.
enum class Compression : uint8_t {
  kNone,      // x as it is; nothing is kept
  kFloat16,   // halves, blocks scaled by a power of two
  kBFloat16,  //
  kInt8,      // round(p / scale), scale = max |p| of the block / 127, rounded up
  kOneBit,    // EF-SignSGD (Karimireddy et al. 2019, algorithm 2) per block: mean |p| * sign(p)
  kTopK,      // the k largest |p|; of equal ones those of lowest index; zeros are never sent
  kDgc,       // Deep Gradient Compression (Lin et al. 2017), momentum correction and factor
              // masking: u = m u + x; v = v + u; the k largest |v| are sent, u and v become 0
              // there. For gradients only; the receiver applies plain SGD
};

struct CompressionOptions {
  Compression compression = Compression::kNone;
  // kResidual for increments (pushes), kFollow for versions (answers), see Encoder. Without
  // feedback (fp16, bf16 and int8 only) rounding errors are lost: a ring that encodes at every hop.
  kernels::Feedback feedback = kernels::Feedback::kResidual;
  double density = 0.01;  // kTopK, kDgc: k = round(density * elements), at least 1; up to 0.5
  float momentum = 0.9f;  // kDgc: m, in [0, 1)

  // Errors: InvalidArgument naming the option.
  absl::Status Validate() const;
};

// The format of the payloads on the wire.
wire::Codec WireCodec(Compression compression);
// Vectors of state per encoder: none, one, or DGC's v and u.
int StateVectors(const CompressionOptions& options);
// The density of an epoch, from 0: 25, 6.25, 1.6, 0.4, 0.1 %, never below `density`.
double DgcDensity(int epoch, double density);

// Memory for selecting the largest elements, shared by the encoders of one thread.
class EncoderScratch {
 private:
  friend class Encoder;
  std::vector<uint32_t> indices_, bits_, spare_;
};

// Encodes the vectors of one chunk, one after the other, for one receiver that sums what it decodes
// (or several that all get the same). What a payload lacks is part of the next.
//
// kResidual: the vectors are increments, like gradient sums. With e, the remainder that was not
// sent, p = x + e is encoded and e = p - decoded is kept: the decoded values and e sum up to the
// input, except for the rounding of these two operations. For DGC that holds for v and the u of
// every step.
//
// kFollow: the vectors are versions of one vector, like weights. The state is the receiver's
// vector, bit for bit: p = x - state is encoded and state = state + decoded kept, which is what
// CheckedPayload::AddTo computes at the receiver. Versions may be skipped; the state begins as the
// vector that the receiver has before the first payload (Restore).
//
// Each call is a step: to resend a payload, the sender keeps it instead of encoding again. Equal
// inputs give the same payloads on every device and at any vector width. Not thread-safe. Memory:
// StateVectors(options) times the chunk.
class Encoder {
 public:
  // Errors: those of options.Validate(). `kernels` must outlive the encoder.
  static absl::StatusOr<std::unique_ptr<Encoder>> Create(const CompressionOptions& options,
                                                         size_t elements,
                                                         const kernels::Kernels& kernels);

  size_t elements() const { return elements_; }
  wire::Codec codec() const { return WireCodec(options_.compression); }
  size_t encoded_bytes_max() const { return wire::EncodedBytesMax(codec(), elements_); }

  // Writes the payload for `x` to the front of `payload` and returns its size. x.size() is
  // elements(), payload.size() at least encoded_bytes_max(). Errors: InvalidArgument if an element,
  // alone or with the state, is NaN, infinite or beyond the format's range; the state is lost then,
  // and every later call fails with FailedPrecondition until Restore.
  absl::StatusOr<size_t> Encode(absl::Span<const float> x, EncoderScratch* scratch,
                                absl::Span<std::byte> payload);

  // Sets the density from the next step on (a warm-up's density). Errors: InvalidArgument outside
  // of (0, 0.5].
  absl::Status SetDensity(double density);

  int vectors() const { return StateVectors(options_); }
  // The state: vectors() vectors of elements() floats; for DGC v and then u.
  absl::Span<const float> State(int vector) const;
  // Continues from a state that was read before; no vectors: from zeros. Errors, after which
  // nothing has changed: InvalidArgument if number or size of the vectors differ or an element is
  // NaN or infinite.
  absl::Status Restore(absl::Span<const absl::Span<const float>> state);

 private:
  Encoder(const CompressionOptions& options, size_t elements, const kernels::Kernels& kernels);

  bool IsDgc() const { return options_.compression == Compression::kDgc; }
  bool EncodeDense(const float* x, std::byte* payload);
  bool EncodeLargest(const float* x, EncoderScratch* scratch, std::byte* payload, size_t* bytes);
  void Sent(const kernels::Candidates& sent, size_t count);
  absl::Status Failed(absl::Span<const float> x);
  float* StateAt(int vector) { return state_.empty() ? nullptr : &state_[vector * elements_]; }

  CompressionOptions options_;
  size_t elements_;
  const kernels::Kernels& kernels_;
  std::vector<float> state_;  // one vector after the other
  bool state_is_lost_ = false;
};

// Encodes `values` into a buffer of the pool of the payload's exact size, since sparse ones are far
// smaller than the largest. Errors: those of Encode.
absl::StatusOr<Bytes> EncodePayload(Encoder* encoder, absl::Span<const float> values,
                                    EncoderScratch* scratch, BufferPool& pool);

// Returns the compression options for an encoding of a job whose defaults are filled in.
CompressionOptions MakeCompression(const proto::Encoding& encoding, kernels::Feedback feedback);

// Returns the codec of the payloads of an encoding.
wire::Codec WireCodec(const proto::Encoding& encoding);

// Returns DGC's density once `epochs` epochs, possibly fractional, have been trained.
double DgcDensityAt(const proto::Encoding& encoding, double epochs);

}  // namespace strata::numerics

#endif  // STRATA_NUMERICS_ENCODER_H_
