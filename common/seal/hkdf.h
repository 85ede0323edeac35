#ifndef STRATA_COMMON_SEAL_HKDF_H_
#define STRATA_COMMON_SEAL_HKDF_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace strata::seal {

// HKDF with SHA-256 (RFC 5869), extract and expand: fills `key` from a secret. An empty salt stands
// for 32 bytes of zero. Threads: any. REQUIRES: 1 to 255 * 32 bytes of key.
void Hkdf(absl::Span<const std::byte> secret, absl::Span<const std::byte> salt,
          absl::string_view info, absl::Span<std::byte> key);

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_HKDF_H_
