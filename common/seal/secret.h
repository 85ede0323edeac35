#ifndef STRATA_COMMON_SEAL_SECRET_H_
#define STRATA_COMMON_SEAL_SECRET_H_

#include <array>
#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace strata::seal {

inline constexpr size_t kSecretBytes = 32;
inline constexpr size_t kKeyBytes = 32;
inline constexpr size_t kSaltBytes = 16;

// Keys are derived from it, and handshakes prove knowledge of it.
using Secret = std::array<std::byte, kSecretBytes>;
// A key of AES-256.
using Key = std::array<std::byte, kKeyBytes>;
// Makes one sender's keys differ from all others'. It is not secret.
using Salt = std::array<std::byte, kSaltBytes>;

// Returns random ones. Aborts without randomness: no secret is safe then. Threads: any.
Secret NewSecret();
Salt NewSalt();

// Errors: InvalidArgument: not kSecretBytes bytes. The text shows none of them.
absl::StatusOr<Secret> SecretFromBytes(absl::string_view bytes);

// Overwrites a secret in a way that compilers do not optimize away.
void Wipe(Secret* secret);

// A secret or a key that is overwritten on destruction. Each copy wipes itself.
class WipedSecret {
 public:
  explicit WipedSecret(const Secret& secret) : secret_(secret) {}
  WipedSecret(const WipedSecret&) = default;
  WipedSecret& operator=(const WipedSecret&) = default;
  ~WipedSecret() { Wipe(&secret_); }

  const Secret& get() const { return secret_; }

 private:
  Secret secret_;
};

// HKDF with SHA-256 (RFC 5869), extract and expand: fills `key` from a secret. An empty salt stands
// for 32 bytes of zero. Threads: any. REQUIRES: 1 to 255 * 32 bytes of key.
void Hkdf(absl::Span<const std::byte> secret, absl::Span<const std::byte> salt,
          absl::string_view info, absl::Span<std::byte> key);

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_SECRET_H_
