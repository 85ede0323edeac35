#include "common/seal/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/seal/aead.h"
#include "common/seal/secret.h"
#include "common/testing/hex.h"

namespace strata::seal {
namespace {

using ByteVector = std::vector<std::byte>;

constexpr Protection kBoth[] = {Protection::kSign, Protection::kEncrypt};

Secret SecretOf(int fill) {
  Secret secret;
  secret.fill(static_cast<std::byte>(fill));
  return secret;
}

Salt SealSaltOf(int fill) {
  Salt salt;
  salt.fill(static_cast<std::byte>(fill));
  return salt;
}

ByteVector SealNumbered(size_t bytes) {
  ByteVector payload(bytes);
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return payload;
}

// The transmitted bytes.
struct Sealed {
  ByteVector bytes;
  PayloadSeal seal;
};

Sealed SealedBy(PayloadSealer& sealer, Protection protection, const ByteVector& payload) {
  Sealed sealed{payload, {}};
  sealed.seal =
      sealer.Seal(payload, protection == Protection::kSign ? nullptr : sealed.bytes.data());
  return sealed;
}

const absl::Status kSealBroken = absl::InvalidArgumentError("the payload's seal is broken");

TEST(PayloadSeal, OpensToWhatWasSealedInPlaceOrElsewhere) {
  for (const Protection protection : kBoth) {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), protection);
    PayloadOpener opener(SecretOf(1), SealSaltOf(2), protection);
    for (const size_t bytes : {0, 1, 15, 16, 17, 128, 4095, 4096, 65537, 1 << 20}) {
      const ByteVector payload = SealNumbered(bytes);
      ByteVector in_place = payload;
      ByteVector elsewhere(bytes);
      const PayloadSeal first = sealer.Seal(in_place, in_place.data());
      const PayloadSeal second = sealer.Seal(payload, elsewhere.data());
      if (protection == Protection::kSign) {
        EXPECT_EQ(in_place, payload);
        EXPECT_EQ(elsewhere, ByteVector(bytes));
        EXPECT_EQ(opener.Open(payload, first, nullptr), absl::OkStatus());
        EXPECT_EQ(opener.Open(payload, second, nullptr), absl::OkStatus());
        continue;
      }
      if (bytes >= 15) {
        EXPECT_NE(in_place, payload);
        EXPECT_NE(elsewhere, in_place);
      }
      ByteVector opened(bytes);
      EXPECT_EQ(opener.Open(elsewhere, second, opened.data()), absl::OkStatus());
      EXPECT_EQ(opened, payload);
      EXPECT_EQ(opener.Open(in_place, first, in_place.data()), absl::OkStatus());
      EXPECT_EQ(in_place, payload);
    }
  }
}

TEST(PayloadSeal, BreaksByEveryBitAndLeavesZeros) {
  for (const Protection protection : kBoth) {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), protection);
    PayloadOpener opener(SecretOf(1), SealSaltOf(2), protection);
    const ByteVector payload = SealNumbered(37);
    const Sealed sealed = SealedBy(sealer, protection, payload);
    ByteVector opened(payload.size(), std::byte{9});
    const ByteVector left = protection == Protection::kSign ? opened : ByteVector(payload.size());
    const auto expect_broken = [&](const ByteVector& bytes, const PayloadSeal& seal) {
      std::fill(opened.begin(), opened.end(), std::byte{9});
      EXPECT_EQ(opener.Open(bytes, seal, opened.data()), kSealBroken);
      EXPECT_EQ(opened, left);
    };
    for (size_t bit = 0; bit < 8 * payload.size(); ++bit) {
      ByteVector changed = sealed.bytes;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      expect_broken(changed, sealed.seal);
    }
    for (size_t bit = 0; bit < 8 * kTagBytes; ++bit) {
      PayloadSeal changed = sealed.seal;
      changed.tag[bit / 8] ^= std::byte{1} << (bit % 8);
      expect_broken(sealed.bytes, changed);
    }
    for (size_t bit = 0; bit < 64; ++bit) {
      PayloadSeal changed = sealed.seal;
      changed.number ^= uint64_t{1} << bit;
      expect_broken(sealed.bytes, changed);
    }
    EXPECT_EQ(opener.Open(sealed.bytes, sealed.seal, opened.data()), absl::OkStatus());
  }
}

TEST(PayloadSeal, BreaksWhenBytesAreCutOffOrAdded) {
  for (const Protection protection : kBoth) {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), protection);
    PayloadOpener opener(SecretOf(1), SealSaltOf(2), protection);
    const Sealed sealed = SealedBy(sealer, protection, SealNumbered(33));
    ByteVector opened(64);
    for (size_t bytes = 0; bytes < 64; ++bytes) {
      ByteVector other = sealed.bytes;
      other.resize(bytes);
      EXPECT_EQ(opener.Open(other, sealed.seal, opened.data()),
                bytes == 33 ? absl::OkStatus() : kSealBroken);
    }
  }
}

TEST(PayloadSeal, IsOfOneSecretOneSenderAndOneProtection) {
  for (const Protection protection : kBoth) {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), protection);
    const Sealed sealed = SealedBy(sealer, protection, SealNumbered(33));
    const Protection other =
        protection == Protection::kSign ? Protection::kEncrypt : Protection::kSign;
    ByteVector opened(33);
    PayloadOpener right(SecretOf(1), SealSaltOf(2), protection);
    PayloadOpener other_secret(SecretOf(9), SealSaltOf(2), protection);
    PayloadOpener other_salt(SecretOf(1), SealSaltOf(9), protection);
    PayloadOpener other_protection(SecretOf(1), SealSaltOf(2), other);
    EXPECT_EQ(right.Open(sealed.bytes, sealed.seal, opened.data()), absl::OkStatus());
    for (PayloadOpener* opener : {&other_secret, &other_salt, &other_protection}) {
      EXPECT_EQ(opener->Open(sealed.bytes, sealed.seal, opened.data()), kSealBroken);
    }
  }
}

// An empty payload shows the key alone: all that is signed is equal.
TEST(PayloadSeal, TheKeyDependsOnTheProtection) {
  PayloadSealer signing(SecretOf(1), SealSaltOf(2), Protection::kSign);
  PayloadSealer encrypting(SecretOf(1), SealSaltOf(2), Protection::kEncrypt);
  EXPECT_NE(signing.Seal({}, nullptr).tag, encrypting.Seal({}, nullptr).tag);
}

// Index 0 is invalid, however correct the tag is.
TEST(PayloadSeal, APayloadWithoutASealIsRefused) {
  std::string info = "strata payload key";
  info += {1, 0, 0, 0, 0};
  Key key;
  Hkdf(SecretOf(1), SealSaltOf(2), info, absl::MakeSpan(key));
  Gcm gcm(key);
  PayloadOpener opener(SecretOf(1), SealSaltOf(2), Protection::kSign);
  const ByteVector payload = SealNumbered(16);
  EXPECT_EQ(opener.Open(payload, {0, gcm.Sign(Nonce{}, {payload})}, nullptr), kSealBroken);
  Nonce first = {};
  first[4] = std::byte{1};
  EXPECT_EQ(opener.Open(payload, {1, gcm.Sign(first, {payload})}, nullptr), absl::OkStatus());
}

// Computed by another implementation, as in seal_vectors_test.py: other hosts may run other builds.
TEST(PayloadSeal, IsOnEveryHostTheSame) {
  const ByteVector payload = FromHex("737472617461");
  for (const Protection protection : kBoth) {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), protection, {.payloads_per_key = 1});
    SealedBy(sealer, protection, payload);
    const Sealed sealed = SealedBy(sealer, protection, payload);
    EXPECT_EQ(sealed.seal.number, (uint64_t{1} << 32) + 1);
    const bool is_signed = protection == Protection::kSign;
    EXPECT_EQ(ToHex(sealed.bytes), is_signed ? "737472617461" : "a1a62d8c1938");
    EXPECT_EQ(ToHex(sealed.seal.tag),
              is_signed ? "517bd73907224840c48763c4a062780f" : "c670d582c5b4ea60ec0c85d41155f630");
  }
}

std::vector<std::string> NumbersOf(const KeyLimits& limits, const std::vector<size_t>& payloads) {
  PayloadSealer sealer(SecretOf(1), SealSaltOf(2), Protection::kEncrypt, limits);
  PayloadOpener opener(SecretOf(1), SealSaltOf(2), Protection::kEncrypt);
  std::vector<std::string> numbers;
  for (const size_t bytes : payloads) {
    const ByteVector payload = SealNumbered(bytes);
    const Sealed sealed = SealedBy(sealer, Protection::kEncrypt, payload);
    numbers.push_back(absl::StrCat(sealed.seal.number >> 32, ".", sealed.seal.number & 0xffffffff));
    ByteVector opened(bytes);
    EXPECT_EQ(opener.Open(sealed.bytes, sealed.seal, opened.data()), absl::OkStatus());
    EXPECT_EQ(opened, payload);
  }
  return numbers;
}

TEST(PayloadSealer, TakesANewKeyBeforeTheOldOneSealedTooMuch) {
  EXPECT_EQ(NumbersOf({.bytes_per_key = 100}, {40, 60, 1, 98, 1, 0, 1, 200, 0, 100, 0}),
            (std::vector<std::string>{"0.1", "0.2", "1.1", "1.2", "1.3", "1.4", "2.1", "3.1", "4.1",
                                      "4.2", "4.3"}));
  EXPECT_EQ(NumbersOf({.payloads_per_key = 2}, {5, 5, 5, 0, 0, 5, 5}),
            (std::vector<std::string>{"0.1", "0.2", "1.1", "1.2", "2.1", "2.2", "3.1"}));
}

// With a key and a nonce the key stream is the same; payloads of zeros show it.
TEST(PayloadSealer, NeverUsesANonceOfAKeyTwice) {
  PayloadSealer sealer(SecretOf(1), SealSaltOf(2), Protection::kEncrypt, {.bytes_per_key = 160});
  PayloadSealer other(SecretOf(1), SealSaltOf(3), Protection::kEncrypt, {.bytes_per_key = 160});
  std::set<ByteVector> streams;
  uint64_t last = 0;
  constexpr size_t kPayloads = 20'000;
  for (size_t i = 0; i < kPayloads; ++i) {
    const Sealed sealed = SealedBy(sealer, Protection::kEncrypt, ByteVector(16));
    EXPECT_GT(sealed.seal.number, last);
    last = sealed.seal.number;
    streams.insert(sealed.bytes);
    streams.insert(SealedBy(other, Protection::kEncrypt, ByteVector(16)).bytes);
  }
  EXPECT_EQ(last >> 32, kPayloads / 10 - 1);
  EXPECT_EQ(streams.size(), 2 * kPayloads);
}

TEST(PayloadSealer, StopsWhenItsKeysAreUsedUp) {
  const auto use_up = [] {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), Protection::kSign,
                         {.payloads_per_key = 1, .last_epoch = 1});
    sealer.Seal({}, nullptr);
    sealer.Seal({}, nullptr);
    fputs("two are sealed\n", stderr);
    sealer.Seal({}, nullptr);
  };
  EXPECT_DEATH(use_up(), "two are sealed\n.*requirement failed: epoch_ < limits_.last_epoch");
}

TEST(PayloadOpener, OpensPayloadsOfAnyKeyInAnyOrderAndAgain) {
  for (const Protection protection : kBoth) {
    PayloadSealer sealer(SecretOf(1), SealSaltOf(2), protection, {.payloads_per_key = 1});
    PayloadOpener opener(SecretOf(1), SealSaltOf(2), protection);
    std::vector<Sealed> all;
    for (size_t i = 0; i < 8; ++i)
      all.push_back(SealedBy(sealer, protection, SealNumbered(20 + i)));
    for (const size_t i : {0, 1, 0, 1, 2, 1, 2, 0, 7, 0, 7, 7, 3, 4, 6, 5, 5, 0}) {
      ByteVector opened(all[i].bytes.size());
      EXPECT_EQ(opener.Open(all[i].bytes, all[i].seal, opened.data()), absl::OkStatus()) << i;
      if (protection == Protection::kEncrypt) {
        EXPECT_EQ(opened, SealNumbered(20 + i));
      }
    }
  }
}

Key KeyOf(int fill) {
  Key key;
  key.fill(static_cast<std::byte>(fill));
  return key;
}

ByteVector Numbered(size_t bytes) {
  ByteVector header(bytes);
  for (size_t i = 0; i < bytes; ++i) header[i] = static_cast<std::byte>(i * 7 + 1);
  return header;
}

const absl::Status kBroken = absl::InvalidArgumentError("the header's seal is broken");

// One connection's direction, with frames of a header and a payload's seal.
struct Frame {
  ByteVector header;
  PayloadSeal seal;
  Tag tag;
};

Frame FrameOf(HeaderSealer& sealer, size_t i) {
  Frame frame{Numbered(24 + i), {i, {}}, {}};
  frame.seal.tag.fill(static_cast<std::byte>(i));
  frame.tag = sealer.Next(frame.header, frame.seal);
  sealer.Took();
  return frame;
}

std::vector<Frame> FramesOf(const Key& key, size_t count) {
  HeaderSealer sealer(key);
  std::vector<Frame> frames;
  for (size_t i = 0; i < count; ++i) frames.push_back(FrameOf(sealer, i));
  return frames;
}

absl::Status Check(HeaderOpener& opener, const Frame& frame) {
  return opener.Check(frame.header, frame.seal, frame.tag);
}

// Returns how many of the frames, in this order, an opener accepts before it refuses one and
// everything after it.
size_t TakenOf(const std::vector<Frame>& frames, const std::vector<size_t>& order) {
  HeaderOpener opener(KeyOf(5));
  size_t taken = 0;
  for (const size_t i : order) {
    const absl::Status status = Check(opener, frames[i]);
    if (!status.ok()) break;
    ++taken;
  }
  if (taken == order.size()) return taken;
  for (const Frame& frame : frames) EXPECT_EQ(Check(opener, frame), kBroken);
  return taken;
}

TEST(HeaderSeal, FramesMustComeOnceEachAndInOrder) {
  const std::vector<Frame> frames = FramesOf(KeyOf(5), 6);
  EXPECT_EQ(TakenOf(frames, {0, 1, 2, 3, 4, 5}), 6u);
  EXPECT_EQ(TakenOf(frames, {0, 1, 1, 2}), 2u);  // replayed
  EXPECT_EQ(TakenOf(frames, {0, 1, 0}), 2u);
  EXPECT_EQ(TakenOf(frames, {0, 2, 1}), 1u);  // reordered
  EXPECT_EQ(TakenOf(frames, {1, 0}), 0u);
  EXPECT_EQ(TakenOf(frames, {0, 2, 3}), 1u);  // one is missing
}

TEST(HeaderSeal, EqualFramesHaveOtherTagsAtEachPlace) {
  HeaderSealer sealer(KeyOf(5));
  std::set<Tag> tags;
  for (size_t i = 0; i < 5'000; ++i) {
    tags.insert(sealer.Next(Numbered(24), {}));
    sealer.Took();
  }
  EXPECT_EQ(tags.size(), 5'000u);
}

// Computed by another implementation, as in seal_vectors_test.py.
TEST(HeaderSeal, IsOnEveryHostTheSame) {
  PayloadSeal seal{3, {}};
  for (size_t i = 0; i < kTagBytes; ++i) seal.tag[i] = static_cast<std::byte>(i);
  const Tag tag = HeaderSealer(KeyOf(5)).Next(FromHex("686561646572"), seal);
  EXPECT_EQ(ToHex(EncodeSeal(seal, tag)),
            "0300000000000000000102030405060708090a0b0c0d0e0fbe15601350c75e0c9b835d265b638cc3");
}

TEST(HeaderSeal, BreaksByEveryBit) {
  HeaderSealer sealer(KeyOf(5));
  const Frame frame = FrameOf(sealer, 3);
  const auto expect_broken = [](const Frame& changed) {
    HeaderOpener opener(KeyOf(5));
    EXPECT_EQ(Check(opener, changed), kBroken);
  };
  for (size_t bit = 0; bit < 8 * frame.header.size(); ++bit) {
    Frame changed = frame;
    changed.header[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_broken(changed);
  }
  for (size_t bit = 0; bit < 64; ++bit) {
    Frame changed = frame;
    changed.seal.number ^= uint64_t{1} << bit;
    expect_broken(changed);
  }
  for (size_t bit = 0; bit < 8 * kTagBytes; ++bit) {
    Frame changed = frame;
    changed.seal.tag[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_broken(changed);
    changed = frame;
    changed.tag[bit / 8] ^= std::byte{1} << (bit % 8);
    expect_broken(changed);
  }
  HeaderOpener opener(KeyOf(5));
  EXPECT_EQ(Check(opener, frame), absl::OkStatus());
}

TEST(HeaderSeal, TheEndOfAHeaderIsNoPartOfThePayloadsSeal) {
  HeaderSealer sealer(KeyOf(5));
  const Frame frame = FrameOf(sealer, 3);
  // The number's first byte, moved into the header.
  Frame moved = frame;
  moved.header.push_back(std::byte{3});
  moved.seal.number = 3 >> 8;
  HeaderOpener opener(KeyOf(5));
  EXPECT_EQ(Check(opener, moved), kBroken);
}

TEST(HeaderSeal, IsOfOneDirection) {
  HeaderSealer sealer(KeyOf(5));
  const Frame frame = FrameOf(sealer, 3);
  HeaderOpener other(KeyOf(6));
  EXPECT_EQ(Check(other, frame), kBroken);
}

TEST(HeaderSeal, AFrameThatWasNotQueuedKeepsItsPlace) {
  HeaderSealer sealer(KeyOf(5));
  HeaderOpener opener(KeyOf(5));
  const PayloadSeal seal;
  const Tag forgotten = sealer.Next(Numbered(24), seal);
  EXPECT_EQ(sealer.Next(Numbered(24), seal), forgotten);
  EXPECT_NE(sealer.Next(Numbered(25), seal), forgotten);
  const Tag queued = sealer.Next(Numbered(26), seal);
  sealer.Took();
  EXPECT_EQ(opener.Check(Numbered(26), seal, queued), absl::OkStatus());
  EXPECT_NE(sealer.Next(Numbered(24), seal), forgotten);
}

TEST(HeaderSeal, OnlyAFrameWithATagIsTook) {
  HeaderSealer sealer(KeyOf(5));
  EXPECT_DEATH(sealer.Took(), "requirement failed: has_tag_");
  sealer.Next({}, {});
  sealer.Took();
  EXPECT_DEATH(sealer.Took(), "requirement failed: has_tag_");
}

TEST(EncodeSeal, IsReadAsItWasWritten) {
  PayloadSeal seal{0x0807060504030201, {}};
  Tag tag;
  for (size_t i = 0; i < kTagBytes; ++i) {
    seal.tag[i] = static_cast<std::byte>(0x09 + i);
    tag[i] = static_cast<std::byte>(0x19 + i);
  }
  const std::array<std::byte, kSealBytes> bytes = EncodeSeal(seal, tag);
  for (size_t i = 0; i < kSealBytes; ++i) EXPECT_EQ(static_cast<size_t>(bytes[i]), i + 1);
  PayloadSeal read;
  Tag read_tag;
  ASSERT_EQ(DecodeSeal(bytes, &read, &read_tag), absl::OkStatus());
  EXPECT_EQ(read.number, seal.number);
  EXPECT_EQ(read.tag, seal.tag);
  EXPECT_EQ(read_tag, tag);
}

TEST(DecodeSeal, RefusesWhatNoSealerMakes) {
  PayloadSeal read{7, {}};
  Tag tag = {};
  const auto code = [&](const ByteVector& bytes) { return DecodeSeal(bytes, &read, &tag).code(); };
  for (size_t bytes = 0; bytes < 2 * kSealBytes; ++bytes) {
    EXPECT_EQ(code(ByteVector(bytes)),
              bytes == kSealBytes ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
  }
  read.number = 7;
  ByteVector tag_without_number(kSealBytes);
  tag_without_number[8 + 15] = std::byte{1};
  EXPECT_EQ(code(tag_without_number), absl::StatusCode::kInvalidArgument);
  ByteVector without_index(kSealBytes);
  without_index[4] = std::byte{1};
  EXPECT_EQ(code(without_index), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read.number, 7u);
}

}  // namespace
}  // namespace strata::seal
