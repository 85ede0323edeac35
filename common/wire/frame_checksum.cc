// The checksums of payloads, with the widest instructions of the processor, chosen at run time:
// xxhash.h alone takes those that each processor has, and 0.3 s more for a GiB.
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <cstdint>

#include "common/wire/frame.h"

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

}  // namespace strata::wire
