#include <gtest/gtest.h>
#include <openssl/err.h>

#include <memory>
#include <string>
#include <vector>

#include "common/seal/aead.h"
#include "common/seal/secret.h"
#include "common/testing/hex.h"

namespace strata::seal {
namespace {

TEST(Secret, IsReadFromThirtyTwoBytesAndNothingElse) {
  for (const size_t bytes : {0, 31, 33, 64}) {
    const absl::Status status = SecretFromBytes(std::string(bytes, 'x')).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message().find('x'), absl::string_view::npos);
  }
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(200 + i));
  const absl::StatusOr<Secret> secret = SecretFromBytes(bytes);
  ASSERT_TRUE(secret.ok());
  for (int i = 0; i < 32; ++i) EXPECT_EQ((*secret)[i], static_cast<std::byte>(200 + i));
}

TEST(Secret, NewOnesDiffer) {
  EXPECT_NE(NewSecret(), NewSecret());
  EXPECT_NE(NewSalt(), NewSalt());
  EXPECT_NE(NewSecret(), Secret{});
}

TEST(Secret, IsWipedAtTheEndOfItsLife) {
  alignas(WipedSecret) std::byte place[sizeof(WipedSecret)];
  WipedSecret* const secret = std::construct_at(reinterpret_cast<WipedSecret*>(place), NewSecret());
  EXPECT_NE(secret->get(), Secret{});
  std::destroy_at(secret);
  // Read by a volatile: a compiler may believe that the object's bytes are gone.
  const volatile std::byte* const left = place;
  for (size_t i = 0; i < sizeof place; ++i) EXPECT_TRUE(left[i] == std::byte{0}) << i;
}

struct HkdfVector {
  std::string secret, salt, info;
  std::string key;
};

std::string Derived(const HkdfVector& vector) {
  std::vector<std::byte> key(vector.key.size() / 2);
  Hkdf(FromHex(vector.secret), FromHex(vector.salt), absl::HexStringToBytes(vector.info),
       absl::MakeSpan(key));
  return ToHex(key);
}

// RFC 5869, appendix A.
TEST(Hkdf, GivesTheKeysOfTheStandard) {
  const std::vector<HkdfVector> vectors = {
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c",
       "f0f1f2f3f4f5f6f7f8f9",
       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"}};
  for (const HkdfVector& vector : vectors) EXPECT_EQ(Derived(vector), vector.key);
}

TEST(Hkdf, AnEmptySaltIsThirtyTwoZeros) {
  const HkdfVector empty = {"01020304", "", "aa", std::string(64, '-')};
  HkdfVector zeros = empty;
  zeros.salt = std::string(64, '0');
  EXPECT_EQ(Derived(empty), Derived(zeros));
}

struct Vector {
  std::string key, nonce, associated, plain;
  std::string sealed, tag;
};

const std::string kZeroKey(64, '0');
const std::string kZeroNonce(24, '0');
const std::string kMcGrewKey = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
const std::string kMcGrewPlain =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const std::string kMcGrewSealed =
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662";

// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B, test cases 13 to 16.
const std::vector<Vector> kVectors = {
    {kZeroKey, kZeroNonce, "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {kZeroKey, kZeroNonce, "", "00000000000000000000000000000000",
     "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {kMcGrewKey, "cafebabefacedbaddecaf888", "", kMcGrewPlain + "1aafd255",
     kMcGrewSealed + "898015ad", "b094dac5d93471bdec1a502270e3cc6c"},
    {kMcGrewKey, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     kMcGrewPlain, kMcGrewSealed, "76fc6ece0f4e1768cddf8853bb2d551b"},
};

TEST(Gcm, SealsAsTheStandardSays) {
  for (const Vector& vector : kVectors) {
    Gcm gcm(ArrayFromHex<Key>(vector.key));
    const std::vector<std::byte> plain = FromHex(vector.plain);
    std::vector<std::byte> sealed(plain.size());
    const Tag tag = gcm.Encrypt(ArrayFromHex<Nonce>(vector.nonce), FromHex(vector.associated),
                                plain, sealed.data());
    EXPECT_EQ(ToHex(sealed), vector.sealed);
    EXPECT_EQ(ToHex(tag), vector.tag);
  }
}

TEST(Gcm, OpensWhatTheStandardSealed) {
  for (const Vector& vector : kVectors) {
    Gcm gcm(ArrayFromHex<Key>(vector.key));
    const std::vector<std::byte> sealed = FromHex(vector.sealed);
    std::vector<std::byte> plain(sealed.size());
    EXPECT_TRUE(gcm.Decrypt(ArrayFromHex<Nonce>(vector.nonce), FromHex(vector.associated), sealed,
                            ArrayFromHex<Tag>(vector.tag), plain.data()));
    EXPECT_EQ(ToHex(plain), vector.plain);
  }
}

// IEEE 802.1AE-2018, C.1.2: 54 bytes under GCM-AES-256, authenticated only.
TEST(Gcm, SignsAsTheStandardSays) {
  Gcm gcm(ArrayFromHex<Key>("e3c08a8f06c6e3ad95a70557b23f75483ce33021a9c72b7025666204c69c0b72"));
  const std::vector<std::byte> signed_bytes = FromHex(
      "d609b1f056637a0d46df998d88e5222ab2c2846512153524c0895e8108000f101112131415161718191a1b1c"
      "1d1e1f202122232425262728292a2b2c2d2e2f30313233340001");
  const Nonce nonce = ArrayFromHex<Nonce>("12153524c0895e81b2c28465");
  EXPECT_EQ(ToHex(gcm.Sign(nonce, {signed_bytes})), "2f0bc5af409e06d609ea8b7d0fa5ea50");
  for (size_t cut = 0; cut <= signed_bytes.size(); ++cut) {
    const absl::Span<const std::byte> all = signed_bytes;
    EXPECT_EQ(ToHex(gcm.Sign(nonce, {all.first(cut), all.subspan(cut)})),
              "2f0bc5af409e06d609ea8b7d0fa5ea50");
  }
}

TEST(Gcm, RefusesEveryChangedBitAndLeavesNoErrorBehind) {
  const Vector& vector = kVectors.back();
  Gcm gcm(ArrayFromHex<Key>(vector.key));
  const Nonce nonce = ArrayFromHex<Nonce>(vector.nonce);
  const std::string whole = vector.associated + vector.sealed + vector.tag;
  const size_t associated_bytes = vector.associated.size() / 2;
  const size_t sealed_bytes = vector.sealed.size() / 2;
  std::vector<std::byte> plain(sealed_bytes);
  for (size_t bit = 0; bit < whole.size() * 4; ++bit) {
    std::vector<std::byte> changed = FromHex(whole);
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    const absl::Span<const std::byte> all = changed;
    const Tag tag = ArrayFromHex<Tag>(ToHex(all.subspan(associated_bytes + sealed_bytes)));
    EXPECT_FALSE(gcm.Decrypt(nonce, all.first(associated_bytes),
                             all.subspan(associated_bytes, sealed_bytes), tag, plain.data()))
        << "bit " << bit;
  }
  EXPECT_EQ(ERR_peek_error(), 0u);
}

// OpenSSL counts in int; such a long message is processed in parts.
TEST(Gcm, LongMessagesGoInPartsAndGiveTheSame) {
  Gcm gcm(ArrayFromHex<Key>(kMcGrewKey));
  const Nonce nonce = ArrayFromHex<Nonce>("cafebabefacedbaddecaf888");
  std::vector<std::byte> plain((33 << 20) + 5);
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * 2654435761 >> 24);
  std::vector<std::byte> sealed(plain.size());
  const Tag tag = gcm.Encrypt(nonce, {}, plain, sealed.data());
  // The same by the first 16 MiB and one byte: counter mode.
  constexpr size_t kBeyondOnePart = (16 << 20) + 1;
  std::vector<std::byte> start(kBeyondOnePart);
  (void)gcm.Encrypt(nonce, {}, absl::MakeSpan(plain).first(kBeyondOnePart), start.data());
  EXPECT_TRUE(std::equal(start.begin(), start.end(), sealed.begin()));
  ASSERT_TRUE(gcm.Decrypt(nonce, {}, sealed, tag, sealed.data()));
  EXPECT_TRUE(sealed == plain);
  const absl::Span<const std::byte> all = plain;
  EXPECT_EQ(gcm.Sign(nonce, {all}), gcm.Sign(nonce, {all.first(7), all.subspan(7)}));
}

TEST(Gcm, TagsAreEqualOnlyAsAWhole) {
  const Tag tag = ArrayFromHex<Tag>("000102030405060708090a0b0c0d0e0f");
  EXPECT_TRUE(AreEqual(tag, tag));
  for (size_t bit = 0; bit < 8 * kTagBytes; ++bit) {
    Tag other = tag;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(AreEqual(tag, other)) << "bit " << bit;
  }
}

}  // namespace
}  // namespace strata::seal
