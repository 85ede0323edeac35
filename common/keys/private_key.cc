#include "common/keys/private_key.h"

#include <openssl/pem.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/keys/key_kind.h"
#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"
#include "common/require.h"

namespace strata::keys {
namespace {

absl::Status Damaged() {
  return absl::InvalidArgumentError("the private key is damaged: it cannot be read");
}

// What kind of key OpenSSL has to expect in the block; nullopt: the block is no private key.
std::optional<int> KeyType(const PemBlock& block) {
  if (block.label == PEM_STRING_PKCS8INF || block.label == PEM_STRING_PKCS8) return EVP_PKEY_NONE;
  if (block.label == PEM_STRING_ECPRIVATEKEY) return EVP_PKEY_EC;
  if (block.label == PEM_STRING_RSA) return EVP_PKEY_RSA;
  if (block.label == PEM_STRING_DSA) return EVP_PKEY_DSA;
  return std::nullopt;
}

KeyPointer Decode(int type, const std::string& der) {
  const auto* begin = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* at = begin;
  KeyPointer key;
  if (type == EVP_PKEY_NONE) {
    const Pkcs8Pointer wrapped(
        d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, static_cast<long>(der.size())));
    if (wrapped != nullptr) key.reset(EVP_PKCS82PKEY(wrapped.get()));
  } else {
    key.reset(d2i_PrivateKey(type, nullptr, &at, static_cast<long>(der.size())));
  }
  if (at != begin + der.size()) key.reset();
  return key;
}

// A damaged key may be read, and would fail at the first handshake.
bool HalvesFit(EVP_PKEY* key) {
  const KeyContextPointer context(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  return context != nullptr && EVP_PKEY_public_check(context.get()) == 1 &&
         EVP_PKEY_pairwise_check(context.get()) == 1;
}

}  // namespace

absl::StatusOr<PrivateKey> PrivateKey::Make() {
  const ErrorQueueScope scope;
  KeyPointer key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return absl::InternalError("cannot make a private key: the system gives no random numbers");
  }
  return PrivateKey(std::move(key));
}

absl::StatusOr<PrivateKey> PrivateKey::FromPem(absl::string_view pem) {
  absl::StatusOr<std::vector<PemBlock>> blocks = PemBlocks(pem);
  if (!blocks.ok()) return blocks.status();
  const PemBlock* found = nullptr;
  for (const PemBlock& block : *blocks) {
    if (!KeyType(block).has_value()) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError("there is more than one private key: leave only one");
    }
    found = &block;
  }
  if (found == nullptr) return absl::InvalidArgumentError("there is no private key in PEM");
  if (found->encrypted) {
    return absl::InvalidArgumentError(
        "the private key is encrypted: decrypt it first, as with `openssl pkey -in FILE -out "
        "NEW_FILE`");
  }
  const ErrorQueueScope scope;
  KeyPointer key = Decode(*KeyType(*found), found->der);
  if (key == nullptr) return Damaged();
  if (!IsUsableKey(key.get())) {
    return absl::InvalidArgumentError(
        "the private key is of a kind that is not supported: it may be ECDSA on P-256, P-384 or "
        "P-521, or RSA of 2048 to 8192 bits");
  }
  if (!HalvesFit(key.get())) return Damaged();
  return PrivateKey(std::move(key));
}

std::string PrivateKey::ToPem() const {
  const ErrorQueueScope scope;
  const BioPointer bio(BIO_new(BIO_s_secmem()));
  STRATA_REQUIRE(bio != nullptr);
  STRATA_REQUIRE(PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr,
                                               nullptr) == 1);
  return BioText(bio.get());
}

}  // namespace strata::keys
