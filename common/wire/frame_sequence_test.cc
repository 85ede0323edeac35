// Frames that are counted: between nodes, and from a primary to its backup.
#include <string>
#include <vector>

#include "common/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::wire {
namespace {

const std::vector<std::byte> kPayload(24, std::byte{7});

TEST(FrameSequence, BetweenNodesItCarriesSliceAndSequence) {
  Header header;
  header.element_count = 6;
  header.payload_checksum = Checksum(kPayload);
  header.slice = 0x504f4e4d;
  header.sequence = 0x6867666564636261;
  for (const Op op : {Op::kReduce, Op::kGather}) {
    header.op = op;
    const auto bytes = EncodeHeader(header, 24);
    EXPECT_EQ(static_cast<uint8_t>(bytes[84]), 0x4d);
    EXPECT_EQ(static_cast<uint8_t>(bytes[104]), 0x61);
    Header decoded;
    const absl::Status status = Decode(bytes, kPayload, Limits{}, &decoded);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(decoded, header);
  }
}

TEST(FrameSequence, OnlyFramesThatAreCountedHaveASequence) {
  for (const Op op : {Op::kCut, Op::kAck, Op::kHelloOk, Op::kInitOk, Op::kRetireOk}) {
    Header header;
    header.op = op;
    header.sequence = uint64_t{1} << 63;
    Header decoded;
    const absl::Status status = Decode(EncodeHeader(header, 0), {}, Limits{}, &decoded);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("sequence is"));
  }
}

TEST(FrameSequence, WhatAPrimaryTellsItsBackupIsCounted) {
  for (const Op op : {Op::kInit, Op::kPushPull, Op::kRetire, Op::kApply, Op::kCopy}) {
    Header header;
    header.op = op;
    header.sequence = 7;
    if (op == Op::kApply || op == Op::kPushPull) {
      header.flags = kFlagEmpty;
      header.rate = 0.5f;
    }
    const auto bytes = EncodeHeader(header, 0);
    Header decoded;
    const absl::Status status = Decode(bytes, {}, Limits{}, &decoded);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(decoded, header);
  }
}

}  // namespace
}  // namespace strata::wire
