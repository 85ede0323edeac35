#ifndef STRATA_COMMON_SEAL_AEAD_H_
#define STRATA_COMMON_SEAL_AEAD_H_

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>

#include "absl/types/span.h"
#include "common/seal/secret.h"

struct evp_cipher_ctx_st;  // EVP_CIPHER_CTX of OpenSSL

namespace strata::seal {

inline constexpr size_t kTagBytes = 16;
inline constexpr size_t kNonceBytes = 12;
using Tag = std::array<std::byte, kTagBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;

// In constant time.
bool AreEqual(const Tag& left, const Tag& right);

// AES-256-GCM (NIST SP 800-38D) under one key. Whoever calls it sees to it that no two different
// messages are sealed or signed with one nonce: that would give the key of the tags away. Threads:
// one at a time.
class Gcm {
 public:
  explicit Gcm(const Key& key);

  // Encrypts to `out`, which has the size of `plain`, and may begin where it begins but not overlap
  // it otherwise. Returns the tag.
  Tag Encrypt(const Nonce& nonce, absl::Span<const std::byte> associated,
              absl::Span<const std::byte> plain, std::byte* out);

  // Decrypts to `out`, of which the same holds. False: the tag is wrong, and `out` holds what
  // nobody may use.
  bool Decrypt(const Nonce& nonce, absl::Span<const std::byte> associated,
               absl::Span<const std::byte> sealed, const Tag& tag, std::byte* out);

  // The tag of the parts, one after the other, with nothing encrypted (GMAC).
  Tag Sign(const Nonce& nonce, std::initializer_list<absl::Span<const std::byte>> parts);

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;

  // Each has the key already, so that a message sets its nonce only.
  Context encrypting_;
  Context decrypting_;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_AEAD_H_
