#ifndef STRATA_COMMON_WIRE_REGION_REFERENCE_H_
#define STRATA_COMMON_WIRE_REGION_REFERENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/frame.h"

namespace strata::wire {

// Smaller payloads go with the frame: a reference would cost as much.
inline constexpr size_t kReferredBytesMin = 4096;

// The payload of a frame whose payload_kind is REGION: the location of the real payload in memory
// that the sender shares with the receiver. kRegionReferenceBytes long, little-endian, in this
// order.
struct RegionReference {
  uint32_t segment = 0;  // index among the sender's segments, in the order of its greeting
  uint32_t slot = 0;     // where the receiver writes `ticket` when it no longer needs the bytes
  uint64_t ticket = 0;   // not 0
  uint64_t offset = 0;   // in the segment
  uint64_t bytes = 0;    // the size given by codec and element_count

  bool operator==(const RegionReference&) const = default;
};

std::array<std::byte, kRegionReferenceBytes> EncodeReference(const RegionReference& reference);

// Decodes the reference of a frame that Decode has accepted with payload_kind REGION. Errors:
// InvalidArgument: the size does not match the header's codec and element_count, or the ticket is
// 0.
absl::Status DecodeReference(const Header& header, absl::Span<const std::byte> payload,
                             RegionReference* reference);

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_REGION_REFERENCE_H_
