#include "common/seal/aead.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>

#include "common/require.h"

namespace strata::seal {
namespace {

// OpenSSL counts in int. A multiple of the block of AES.
constexpr size_t kPartBytes = 16 << 20;

unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* Raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

const EVP_CIPHER* Algorithm() {
  // Never freed: contexts of other threads may still use it when the process ends.
  static EVP_CIPHER* const algorithm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  STRATA_REQUIRE(algorithm != nullptr);
  return algorithm;
}

void SetNonce(EVP_CIPHER_CTX* context, const Nonce& nonce) {
  constexpr int kSameDirection = -1;
  STRATA_REQUIRE(EVP_CipherInit_ex2(context, nullptr, nullptr, Raw(nonce.data()), kSameDirection,
                                    nullptr) == 1);
}

// With `out` null, the bytes are associated data.
void Update(EVP_CIPHER_CTX* context, absl::Span<const std::byte> in, std::byte* out) {
  for (size_t at = 0; at < in.size(); at += kPartBytes) {
    const int bytes = static_cast<int>(std::min(kPartBytes, in.size() - at));
    int done = 0;
    STRATA_REQUIRE(EVP_CipherUpdate(context, out == nullptr ? nullptr : Raw(out + at), &done,
                                    Raw(in.data() + at), bytes) == 1 &&
                   done == bytes);
  }
}

Tag Finish(EVP_CIPHER_CTX* context) {
  Tag tag;
  int done = 0;
  STRATA_REQUIRE(EVP_CipherFinal_ex(context, Raw(tag.data()), &done) == 1 && done == 0);
  STRATA_REQUIRE(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) == 1);
  return tag;
}

}  // namespace

bool AreEqual(const Tag& left, const Tag& right) {
  return CRYPTO_memcmp(left.data(), right.data(), kTagBytes) == 0;
}

void Gcm::FreeContext::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

Gcm::Gcm(const Key& key) : encrypting_(EVP_CIPHER_CTX_new()), decrypting_(EVP_CIPHER_CTX_new()) {
  STRATA_REQUIRE(encrypting_ != nullptr && decrypting_ != nullptr);
  STRATA_REQUIRE(
      EVP_EncryptInit_ex2(encrypting_.get(), Algorithm(), Raw(key.data()), nullptr, nullptr) == 1);
  STRATA_REQUIRE(
      EVP_DecryptInit_ex2(decrypting_.get(), Algorithm(), Raw(key.data()), nullptr, nullptr) == 1);
}

Tag Gcm::Encrypt(const Nonce& nonce, absl::Span<const std::byte> associated,
                 absl::Span<const std::byte> plain, std::byte* out) {
  STRATA_REQUIRE(out != nullptr || plain.empty());
  EVP_CIPHER_CTX* const context = encrypting_.get();
  SetNonce(context, nonce);
  Update(context, associated, nullptr);
  Update(context, plain, out);
  return Finish(context);
}

bool Gcm::Decrypt(const Nonce& nonce, absl::Span<const std::byte> associated,
                  absl::Span<const std::byte> sealed, const Tag& tag, std::byte* out) {
  STRATA_REQUIRE(out != nullptr || sealed.empty());
  EVP_CIPHER_CTX* const context = decrypting_.get();
  SetNonce(context, nonce);
  Update(context, associated, nullptr);
  Update(context, sealed, out);
  Tag expected = tag;
  STRATA_REQUIRE(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected.data()) ==
                 1);
  // OpenSSL compares the tags in constant time. Its error for a wrong one is not reported.
  ERR_set_mark();
  Tag unused;
  int done = 0;
  const bool is_right = EVP_DecryptFinal_ex(context, Raw(unused.data()), &done) == 1;
  ERR_pop_to_mark();
  return is_right;
}

Tag Gcm::Sign(const Nonce& nonce, std::initializer_list<absl::Span<const std::byte>> parts) {
  EVP_CIPHER_CTX* const context = encrypting_.get();
  SetNonce(context, nonce);
  for (const absl::Span<const std::byte> part : parts) Update(context, part, nullptr);
  return Finish(context);
}

}  // namespace strata::seal
