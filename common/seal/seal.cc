#include "common/seal/seal.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/require.h"
#include "common/seal/secret.h"
#include "common/wire/little_endian.h"

namespace strata::seal {
namespace {

constexpr size_t kNumberBytes = 8;

uint32_t EpochOf(uint64_t number) { return static_cast<uint32_t>(number >> 32); }
uint32_t IndexOf(uint64_t number) { return static_cast<uint32_t>(number); }

// Four zero bytes, then the number: unique within a key.
Nonce NonceOf(uint64_t number) {
  Nonce nonce = {};
  wire::Put(nonce.data() + (kNonceBytes - kNumberBytes), number);
  return nonce;
}

Gcm GcmOf(const Secret& secret, const Salt& salt, Protection protection, uint32_t epoch) {
  std::string info = "strata payload key";
  info.push_back(static_cast<char>(protection));
  std::byte encoded[sizeof epoch];
  wire::Put(encoded, epoch);
  info.append(reinterpret_cast<const char*>(encoded), sizeof encoded);
  Key key;
  Hkdf(secret, salt, info, absl::MakeSpan(key));
  Gcm gcm(key);
  Wipe(&key);
  return gcm;
}

// Over the header and the payload's seal; the nonce is the frame's place. What follows the header
// has a fixed size, so no two frames give the same bytes.
Tag HeaderTag(Gcm& gcm, uint64_t place, absl::Span<const std::byte> header,
              const PayloadSeal& seal) {
  std::array<std::byte, kNumberBytes + kTagBytes> encoded;
  wire::Put(encoded.data(), seal.number);
  std::memcpy(encoded.data() + kNumberBytes, seal.tag.data(), kTagBytes);
  return gcm.Sign(NonceOf(place), {header, encoded});
}

absl::Status BrokenPayload() { return absl::InvalidArgumentError("the payload's seal is broken"); }

absl::Status BrokenHeader() { return absl::InvalidArgumentError("the header's seal is broken"); }

}  // namespace

PayloadSealer::PayloadSealer(const Secret& secret, const Salt& salt, Protection protection,
                             const KeyLimits& limits)
    : secret_(secret), salt_(salt), protection_(protection), limits_(limits) {
  STRATA_REQUIRE(limits.payloads_per_key > 0);
  TakeKey();
}

void PayloadSealer::TakeKey() {
  gcm_.emplace(GcmOf(secret_.get(), salt_, protection_, epoch_));
  index_ = 0;
  bytes_ = 0;
}

PayloadSeal PayloadSealer::Seal(absl::Span<const std::byte> payload, std::byte* out) {
  STRATA_REQUIRE(payload.size() <= kPayloadBytesMax);
  // A payload above the limit has a key of its own.
  const bool is_worn = index_ == limits_.payloads_per_key ||
                       (index_ > 0 && bytes_ + payload.size() > limits_.bytes_per_key);
  if (is_worn) {
    STRATA_REQUIRE(epoch_ < limits_.last_epoch);
    ++epoch_;
    TakeKey();
  }
  ++index_;
  bytes_ += payload.size();
  PayloadSeal seal;
  seal.number = uint64_t{epoch_} << 32 | index_;
  const Nonce nonce = NonceOf(seal.number);
  seal.tag = protection_ == Protection::kEncrypt ? gcm_->Encrypt(nonce, {}, payload, out)
                                                 : gcm_->Sign(nonce, {payload});
  return seal;
}

PayloadOpener::PayloadOpener(const Secret& secret, const Salt& salt, Protection protection)
    : secret_(secret), salt_(salt), protection_(protection) {}

Gcm& PayloadOpener::KeyOf(uint32_t epoch) {
  const auto is_it = [epoch](const EpochKey& key) {
    return key.gcm.has_value() && key.epoch == epoch;
  };
  if (!is_it(keys_[0])) {
    std::swap(keys_[0], keys_[1]);
    if (!is_it(keys_[0])) {
      keys_[0].gcm.emplace(GcmOf(secret_.get(), salt_, protection_, epoch));
      keys_[0].epoch = epoch;
    }
  }
  return *keys_[0].gcm;
}

absl::Status PayloadOpener::Open(absl::Span<const std::byte> sealed, const PayloadSeal& seal,
                                 std::byte* out) {
  STRATA_REQUIRE(protection_ == Protection::kSign || out != nullptr || sealed.empty());
  bool is_whole = false;
  if (IndexOf(seal.number) > 0 && sealed.size() <= kPayloadBytesMax) {
    Gcm& gcm = KeyOf(EpochOf(seal.number));
    const Nonce nonce = NonceOf(seal.number);
    is_whole = protection_ == Protection::kEncrypt ? gcm.Decrypt(nonce, {}, sealed, seal.tag, out)
                                                   : AreEqual(gcm.Sign(nonce, {sealed}), seal.tag);
  }
  if (is_whole) return absl::OkStatus();
  // The plaintext of a forged payload must not be visible.
  if (protection_ == Protection::kEncrypt) std::fill_n(out, sealed.size(), std::byte{0});
  return BrokenPayload();
}

HeaderSealer::HeaderSealer(const Key& key) : gcm_(key) {}

Tag HeaderSealer::Next(absl::Span<const std::byte> header, const PayloadSeal& seal) {
  STRATA_REQUIRE(place_ > 0);
  has_tag_ = true;
  return HeaderTag(gcm_, place_, header, seal);
}

void HeaderSealer::Took() {
  STRATA_REQUIRE(has_tag_);
  has_tag_ = false;
  ++place_;
}

HeaderOpener::HeaderOpener(const Key& key) : gcm_(key) {}

absl::Status HeaderOpener::Check(absl::Span<const std::byte> header, const PayloadSeal& seal,
                                 const Tag& tag) {
  is_dead_ = is_dead_ || !AreEqual(HeaderTag(gcm_, place_, header, seal), tag);
  if (is_dead_) return BrokenHeader();
  ++place_;
  return absl::OkStatus();
}

std::array<std::byte, kSealBytes> EncodeSeal(const PayloadSeal& seal, const Tag& header_tag) {
  std::array<std::byte, kSealBytes> bytes;
  wire::Put(bytes.data(), seal.number);
  std::memcpy(bytes.data() + kNumberBytes, seal.tag.data(), kTagBytes);
  std::memcpy(bytes.data() + kNumberBytes + kTagBytes, header_tag.data(), kTagBytes);
  return bytes;
}

absl::Status DecodeSeal(absl::Span<const std::byte> bytes, PayloadSeal* seal, Tag* header_tag) {
  if (bytes.size() != kSealBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame's seal has ", kSealBytes, " bytes, not ", bytes.size()));
  }
  PayloadSeal decoded;
  decoded.number = wire::Get<uint64_t>(bytes.data());
  std::memcpy(decoded.tag.data(), bytes.data() + kNumberBytes, kTagBytes);
  if (decoded.number == 0 && decoded.tag != Tag{}) {
    return absl::InvalidArgumentError("a frame's seal has a payload's tag without its number");
  }
  if (decoded.number != 0 && IndexOf(decoded.number) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a frame's seal has a payload's number that no sender gives: ", decoded.number));
  }
  *seal = decoded;
  std::memcpy(header_tag->data(), bytes.data() + kNumberBytes + kTagBytes, kTagBytes);
  return absl::OkStatus();
}

}  // namespace strata::seal
