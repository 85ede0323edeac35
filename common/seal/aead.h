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

// AES-256-GCM (NIST SP 800-38D) under one key. The caller must ensure that no two different
// messages are sealed or signed with one nonce: that would reveal the key of the tags. Threads: one
// at a time.
class Gcm {
 public:
  explicit Gcm(const Key& key);

  // Encrypts to `out`, which has the size of `plain`, and may equal its address but not overlap it
  // otherwise. Returns the tag.
  Tag Encrypt(const Nonce& nonce, absl::Span<const std::byte> associated,
              absl::Span<const std::byte> plain, std::byte* out);

  // Decrypts to `out`, with the same rules. Returns false if the tag is wrong; the content of `out`
  // must not be used then.
  bool Decrypt(const Nonce& nonce, absl::Span<const std::byte> associated,
               absl::Span<const std::byte> sealed, const Tag& tag, std::byte* out);

  // Returns the tag of the concatenated parts, with nothing encrypted (GMAC).
  Tag Sign(const Nonce& nonce, std::initializer_list<absl::Span<const std::byte>> parts);

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;

  // Each has the key already, so a message only sets its nonce.
  Context encrypting_;
  Context decrypting_;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_AEAD_H_
