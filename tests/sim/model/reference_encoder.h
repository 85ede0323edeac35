#ifndef STRATA_TESTS_SIM_MODEL_REFERENCE_ENCODER_H_
#define STRATA_TESTS_SIM_MODEL_REFERENCE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/payload.h"
#include "proto/job.pb.h"

namespace strata::sim {

// Compression with error feedback from the comments of proto/job.proto and common/wire/payload.h,
// with plain loops and sorting: shares no code with compression.
class ReferenceEncoder {
 public:
  enum class Of { kIncrements, kVersions };

  // `first`: of versions, what the receiver has before the first payload; else zeros.
  ReferenceEncoder(const proto::Encoding& encoding, Of of, std::vector<float> first);

  // The payload of the next vector. `epochs`: that have been trained.
  std::vector<std::byte> Encode(absl::Span<const float> x, double epochs);
  // What was not sent, where increments are encoded; what the receiver has, where versions are.
  const std::vector<float>& state() const { return state_; }

 private:
  std::vector<std::byte> EncodeDense(absl::Span<const float> x);
  std::vector<std::byte> EncodeLargest(absl::Span<const float> x, double density);
  double DensityAt(double epochs) const;

  proto::Encoding encoding_;
  Of of_;
  std::vector<float> state_, momentum_;
};

wire::Codec ReferenceCodec(const proto::Encoding& encoding);
// Returns what a payload of so many elements stands for, which an encoder has made.
std::vector<float> ReferenceDecode(wire::Codec codec, size_t elements,
                                   absl::Span<const std::byte> payload);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_MODEL_REFERENCE_ENCODER_H_
