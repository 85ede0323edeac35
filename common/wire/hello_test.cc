#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/frame.h"

namespace strata::wire {
namespace {

void ExpectRefused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
}

TEST(Hello, SurvivesARoundTripInTheDocumentedLayout) {
  const Hello hello = {.protocol = 0x04030201,
                       .role = Hello::Role::kPrimary,
                       .cluster = 0x0c0b0a0908070605,
                       .token = 0x14131211100f0e0d,
                       .connection = 0x18171615,
                       .shard = 0x1c1b1a19};
  const std::array<std::byte, kHelloBytes> bytes = EncodeHello(hello);
  const std::vector<uint8_t> expected = {1,  2,  3,  4,  2,  0,  0,  0,  5,  6,  7,
                                         8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18,
                                         19, 20, 21, 22, 23, 24, 25, 26, 27, 28};
  for (size_t i = 0; i < kHelloBytes; ++i) EXPECT_EQ(static_cast<uint8_t>(bytes[i]), expected[i]);
  Hello decoded;
  ASSERT_TRUE(DecodeHello(bytes, &decoded).ok());
  EXPECT_EQ(decoded.protocol, hello.protocol);
  EXPECT_EQ(decoded.role, hello.role);
  EXPECT_EQ(decoded.cluster, hello.cluster);
  EXPECT_EQ(decoded.token, hello.token);
  EXPECT_EQ(decoded.connection, hello.connection);
  EXPECT_EQ(decoded.shard, hello.shard);
}

TEST(Hello, AWrongSizeOrRoleIsRefused) {
  std::array<std::byte, kHelloBytes> bytes = EncodeHello(Hello{});
  Hello hello;
  ExpectRefused(DecodeHello(absl::MakeConstSpan(bytes).first(31), &hello), "HELLO of 31 bytes");
  for (const uint8_t role : {0, 3, 255}) {
    bytes = EncodeHello(Hello{});
    bytes[4] = static_cast<std::byte>(role);
    ExpectRefused(DecodeHello(bytes, &hello), "HELLO role");
  }
}

}  // namespace
}  // namespace strata::wire
