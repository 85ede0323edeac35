#include <gtest/gtest.h>

#include <vector>

#include "common/wire/frame.h"

namespace strata::wire {
namespace {

// A push of 8 floats; what becomes its payload_checksum is set already.
class SealedFrameTest : public testing::Test {
 protected:
  SealedFrameTest() {
    frame_.header.op = Op::kPushPull;
    frame_.header.element_count = static_cast<uint32_t>(bytes_.size() / sizeof(float));
    frame_.payload = Bytes(nullptr, bytes_.data(), bytes_.size());
  }
  void SayChecksum() { frame_.header.payload_checksum = ChecksumToSend(frame_); }
  absl::Status Decoded(bool has_seal) const {
    Header decoded;
    return Decode(EncodeHeader(frame_.header, bytes_.size()), bytes_, Limits{}, &decoded, has_seal);
  }

  // As long as a reference, too.
  const std::vector<std::byte> bytes_ = std::vector(kRegionReferenceBytes, std::byte{3});
  Frame frame_;
};

TEST_F(SealedFrameTest, APayloadThatIsSealedHasNoChecksum) {
  frame_.seal.emplace();
  SayChecksum();
  EXPECT_EQ(frame_.header.payload_checksum, 0);
  EXPECT_TRUE(Decoded(true).ok());
  EXPECT_EQ(Decoded(false), absl::InvalidArgumentError("payload_checksum is wrong"));
}

TEST_F(SealedFrameTest, OneThatIsNotHasOne) {
  SayChecksum();
  EXPECT_EQ(frame_.header.payload_checksum, Checksum(bytes_));
  EXPECT_TRUE(Decoded(false).ok());
  EXPECT_EQ(Decoded(true), absl::InvalidArgumentError("payload_checksum is wrong"));
}

TEST_F(SealedFrameTest, AReferenceHasOneBesideASeal) {
  frame_.header.payload_kind = PayloadKind::kRegion;
  frame_.seal.emplace();
  SayChecksum();
  EXPECT_EQ(frame_.header.payload_checksum, Checksum(bytes_));
  EXPECT_TRUE(Decoded(true).ok());
  frame_.header.payload_checksum = 0;
  EXPECT_FALSE(Decoded(true).ok());
}

}  // namespace
}  // namespace strata::wire
