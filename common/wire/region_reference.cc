#include "common/wire/region_reference.h"

#include "common/wire/little_endian.h"

namespace strata::wire {

std::array<std::byte, kRegionReferenceBytes> EncodeReference(const RegionReference& reference) {
  std::array<std::byte, kRegionReferenceBytes> bytes = {};
  Put(&bytes[0], reference.segment);
  Put(&bytes[4], reference.slot);
  Put(&bytes[8], reference.ticket);
  Put(&bytes[16], reference.offset);
  Put(&bytes[24], reference.bytes);
  return bytes;
}

absl::Status DecodeReference(const Header& header, absl::Span<const std::byte> payload,
                             RegionReference* reference) {
  reference->segment = Get<uint32_t>(&payload[0]);
  reference->slot = Get<uint32_t>(&payload[4]);
  reference->ticket = Get<uint64_t>(&payload[8]);
  reference->offset = Get<uint64_t>(&payload[16]);
  reference->bytes = Get<uint64_t>(&payload[24]);
  if (reference->ticket == 0)
    return absl::InvalidArgumentError("reference to a region with the ticket 0");
  return CheckEncodedBytes(header.codec, header.element_count, reference->bytes);
}

}  // namespace strata::wire
