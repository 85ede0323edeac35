#include "common/require.h"
#include "common/wire/frame.h"
#include "common/wire/little_endian.h"

namespace strata::wire {

std::vector<std::byte> EncodeChecksums(absl::Span<const uint64_t> checksums) {
  std::vector<std::byte> payload(checksums.size() * sizeof(uint64_t));
  for (size_t i = 0; i < checksums.size(); ++i) Put(&payload[i * sizeof(uint64_t)], checksums[i]);
  return payload;
}

uint64_t ChecksumAt(absl::Span<const std::byte> payload, size_t index) {
  STRATA_REQUIRE(index < payload.size() / sizeof(uint64_t));
  return Get<uint64_t>(&payload[index * sizeof(uint64_t)]);
}

}  // namespace strata::wire
