#include <gtest/gtest.h>
#include <xxhash.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/wire/frame.h"

namespace strata::wire {
namespace {

std::vector<std::byte> Payload() { return std::vector<std::byte>(24, std::byte{1}); }

Header Push() {
  Header header;
  header.op = Op::kPushPull;
  header.element_count = 6;
  header.payload_checksum = Checksum(Payload());
  return header;
}

TEST(FrameRate, AnAnswerCarriesItsStaleness) {
  Header header = Push(), decoded;
  header.op = Op::kAnswer;
  header.staleness = 0x504f4e4d;
  const std::array<std::byte, kHeaderBytes> bytes = EncodeHeader(header, 24);
  EXPECT_EQ(static_cast<uint8_t>(bytes[84]), 0x4d);
  ASSERT_TRUE(Decode(bytes, Payload(), Limits{}, &decoded).ok());
  EXPECT_EQ(decoded, header);
}

TEST(FrameRate, ASumCarriesTheRateOfItsStepBesideASliceToo) {
  Header header = Push(), decoded;
  header.op = Op::kReduce;
  header.slice = 3;
  header.rate = 0.1f;
  std::array<std::byte, kHeaderBytes> bytes = EncodeHeader(header, 24);
  EXPECT_EQ(std::memcmp(&bytes[48], &header.rate, 4), 0);
  ASSERT_TRUE(Decode(bytes, Payload(), Limits{}, &decoded).ok());
  EXPECT_EQ(decoded, header);
  bytes[52] = std::byte{1};
  const uint64_t checksum = XXH3_64bits(bytes.data(), 120);
  std::memcpy(&bytes[120], &checksum, 8);
  EXPECT_EQ(Decode(bytes, Payload(), Limits{}, &decoded).message(),
            "base_version is 0x13dcccccd in op REDUCE, whose rate has 4 bytes");
}

TEST(FrameRate, ARateThatIsNoFiniteNumberOrNegativeIsRefused) {
  for (const Op op : {Op::kPushPull, Op::kReduce}) {
    for (const float rate : {NAN, INFINITY, -INFINITY, -0.5f, -0.0f}) {
      Header header = Push(), decoded;
      header.op = op;
      header.rate = rate;
      const absl::Status status = Decode(EncodeHeader(header, 24), Payload(), Limits{}, &decoded);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << rate;
      EXPECT_EQ(status.message().rfind("rate is ", 0), 0u) << status;
    }
  }
}

// Such a frame is the one that it was before there were rates.
TEST(FrameRate, WithoutARateItsPlaceIsZero) {
  Header header = Push();
  header.rate = 0;
  const std::array<std::byte, kHeaderBytes> bytes = EncodeHeader(header, 24);
  for (size_t i = 84; i < 88; ++i) EXPECT_EQ(bytes[i], std::byte{0});
}

}  // namespace
}  // namespace strata::wire
