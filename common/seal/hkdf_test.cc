#include "common/seal/hkdf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/seal/testing/hex.h"

namespace strata::seal {
namespace {

struct Vector {
  std::string secret, salt, info;
  std::string key;
};

std::string Derived(const Vector& vector) {
  std::vector<std::byte> key(vector.key.size() / 2);
  Hkdf(FromHex(vector.secret), FromHex(vector.salt), absl::HexStringToBytes(vector.info),
       absl::MakeSpan(key));
  return ToHex(key);
}

// RFC 5869, appendix A.
TEST(Hkdf, GivesTheKeysOfTheStandard) {
  const std::vector<Vector> vectors = {
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c",
       "f0f1f2f3f4f5f6f7f8f9",
       "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
      {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
       "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"}};
  for (const Vector& vector : vectors) EXPECT_EQ(Derived(vector), vector.key);
}

TEST(Hkdf, AnEmptySaltIsThirtyTwoZeros) {
  const Vector empty = {"01020304", "", "aa", std::string(64, '-')};
  Vector zeros = empty;
  zeros.salt = std::string(64, '0');
  EXPECT_EQ(Derived(empty), Derived(zeros));
}

}  // namespace
}  // namespace strata::seal
