#include "common/seal/secret.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace strata::seal
