#include "common/seal/secret.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

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

}  // namespace
}  // namespace strata::seal
