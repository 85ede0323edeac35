#include "common/keys/private_key.h"

#include <openssl/core_names.h>
#include <openssl/objects.h>
#include <openssl/pem.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/keys/openssl_pointers.h"
#include "common/keys/pem.h"
#include "common/require.h"

namespace strata::keys {
namespace {

absl::Status DamagedKeyFile() {
  return absl::InvalidArgumentError("the private key is damaged: it cannot be read");
}

// Returns the type of key that OpenSSL must expect in the block; nullopt: the block is not a
// private key.
std::optional<int> KeyType(const PemBlock& block) {
  if (block.label == PEM_STRING_PKCS8INF || block.label == PEM_STRING_PKCS8) return EVP_PKEY_NONE;
  if (block.label == PEM_STRING_ECPRIVATEKEY) return EVP_PKEY_EC;
  if (block.label == PEM_STRING_RSA) return EVP_PKEY_RSA;
  if (block.label == PEM_STRING_DSA) return EVP_PKEY_DSA;
  return std::nullopt;
}

KeyPointer DecodePrivateKey(int type, const std::string& der) {
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

// A damaged key may parse, and would fail at the first handshake.
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
  KeyPointer key = DecodePrivateKey(*KeyType(*found), found->der);
  if (key == nullptr) return DamagedKeyFile();
  if (!IsUsableKey(key.get())) {
    return absl::InvalidArgumentError(
        "the private key is of a kind that is not supported: it may be ECDSA on P-256, P-384 or "
        "P-521, or RSA of 2048 to 8192 bits");
  }
  if (!HalvesFit(key.get())) return DamagedKeyFile();
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

namespace {

constexpr int kRsaBitsMin = 2048;
constexpr int kRsaBitsMax = 8192;

// NID_undef: the key is not on a named curve.
int CurveOf(const EVP_PKEY* key) {
  const ErrorQueueScope scope;
  int is_explicit = 0;
  char name[80] = "";
  if (EVP_PKEY_is_a(key, "EC") != 1 ||
      EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &is_explicit) !=
          1 ||
      is_explicit != 0 ||
      EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, name, sizeof name, nullptr) !=
          1) {
    return NID_undef;
  }
  return OBJ_txt2nid(name);
}

}  // namespace

bool IsP256(const evp_pkey_st* key) { return CurveOf(key) == NID_X9_62_prime256v1; }

bool IsUsableKey(const evp_pkey_st* key) {
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    const int bits = EVP_PKEY_get_bits(key);
    return bits >= kRsaBitsMin && bits <= kRsaBitsMax;
  }
  const int curve = CurveOf(key);
  return curve == NID_X9_62_prime256v1 || curve == NID_secp384r1 || curve == NID_secp521r1;
}

}  // namespace strata::keys
