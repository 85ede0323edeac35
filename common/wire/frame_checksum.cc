// The checksums of payloads, with the processor's widest instructions, chosen at run time: xxhash.h
// alone uses those that every processor has, and takes 0.3 s more per GiB.
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <cstdint>
#include <vector>

#include "common/require.h"
#include "common/wire/frame.h"
#include "common/wire/little_endian.h"

namespace strata::wire {

uint64_t Checksum(absl::Span<const std::byte> payload) {
  return payload.empty() ? 0 : XXH3_64bits(payload.data(), payload.size());
}

uint64_t PayloadChecksum(const Bytes& payload) {
  if (payload.empty()) return 0;
  if (const uint64_t known = payload.known_checksum(); known != 0) return known;
  const uint64_t checksum = Checksum(absl::MakeConstSpan(payload.data(), payload.size()));
  payload.RememberChecksum(checksum);
  return checksum;
}

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
