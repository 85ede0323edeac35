#include "common/wire/frame.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"

namespace strata::wire {
namespace {

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

std::vector<std::byte> FramePayload(size_t size) {
  std::vector<std::byte> payload(size);
  for (size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 37 + 1);
  return payload;
}

// Every field has a different value, and so has every byte of the wide ones.
Header FullHeader() {
  Header header;
  header.op = Op::kPushPull;
  header.flags = kFlagReplay;
  header.job = 0x04030201;
  header.view = 0x08070605;
  header.generation = 0x0c0b0a09;
  header.chunk = 0x100f0e0d;
  header.node = 0x14131211;
  header.incarnation = 0x18171615;
  header.element_count = 6;
  header.clock = 0x2827262524232221;
  header.base_version = 0x302f2e2d2c2b2a29;
  header.version = 0x3837363534333231;
  header.received = 0x403f3e3d3c3b3a39;
  header.durable_through = 0x4847464544434241;
  header.sample_count = 0x4c4b4a49;
  header.rate = std::bit_cast<float>(0x504f4e4d);
  header.min_clock = 0x5857565554535251;
  header.payload_checksum = Checksum(FramePayload(24));
  return header;
}

void Seal(HeaderBytes* bytes) {
  const uint64_t checksum = XXH3_64bits(bytes->data(), 120);
  std::memcpy(bytes->data() + 120, &checksum, 8);
}

absl::Status TryDecode(absl::Span<const std::byte> bytes, absl::Span<const std::byte> payload,
                       const Limits& limits = {}) {
  Header header;
  return Decode(bytes, payload, limits, &header);
}

// Expects a refusal whose text names the field.
void ExpectRefused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
}

// Decodes a valid frame after setting one byte of the header and updating its checksum.
absl::Status DecodeWith(size_t offset, uint8_t value) {
  HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  bytes[offset] = static_cast<std::byte>(value);
  Seal(&bytes);
  return TryDecode(bytes, FramePayload(24));
}

absl::Status DecodeHeader(const Header& header, const std::vector<std::byte>& payload,
                          const Limits& limits = {}) {
  return TryDecode(EncodeHeader(header, payload.size()), payload, limits);
}

TEST(Frame, EveryFieldSurvivesARoundTrip) {
  const Header header = FullHeader();
  Header decoded;
  const absl::Status status =
      Decode(EncodeHeader(header, 24), FramePayload(24), Limits{}, &decoded);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(decoded, header);
}

TEST(Frame, ASeedHoldsWholeChecksums) {
  Header header;
  header.op = Op::kSeed;
  for (const size_t size : {0, 7, 12}) {
    header.payload_checksum = Checksum(FramePayload(size));
    ExpectRefused(DecodeHeader(header, FramePayload(size)),
                  absl::StrFormat("SEED of %d bytes, not of whole checksums", size));
  }
}

TEST(Frame, ChecksumsOfASeedAreReadAsTheyWereWritten) {
  const std::vector<uint64_t> checksums = {1, 0x6867666564636261};
  const std::vector<std::byte> payload = EncodeChecksums(checksums);
  ASSERT_EQ(payload.size(), 16u);
  EXPECT_EQ(static_cast<uint8_t>(payload[8]), 0x61);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(ChecksumAt(payload, i), checksums[i]);
}

TEST(Frame, TheLayoutIsTheDocumentedOneByteForByte) {
  const HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  std::vector<uint8_t> expected = {'S', 'T', 'R', 'A', 1, 5, 2, 0, 0, 0, 0, 0};
  for (uint8_t value = 0x01; value <= 0x18; ++value) expected.push_back(value);  // job..incarnation
  expected.insert(expected.end(), {6, 0, 0, 0});                                 // element_count
  for (uint8_t value = 0x21; value <= 0x50; ++value) expected.push_back(value);  // clock..rate
  expected.insert(expected.end(), {24, 0, 0, 0, 0, 0, 0, 0});                    // payload_bytes
  for (uint8_t value = 0x51; value <= 0x58; ++value) expected.push_back(value);  // min_clock
  expected.insert(expected.end(), 8, 0);                                         // sequence
  // XXH3-64 of the payload and of the 120 bytes before the last field, computed once.
  expected.insert(expected.end(), {0xfc, 0x7a, 0x5c, 0xe6, 0x7f, 0x30, 0xc2, 0x21});
  expected.insert(expected.end(), {0x2a, 0xed, 0x86, 0x09, 0xd9, 0xd6, 0xe3, 0xba});
  ASSERT_EQ(expected.size(), kHeaderBytes);
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    EXPECT_EQ(static_cast<uint8_t>(bytes[i]), expected[i]) << "offset " << i;
  }
}

TEST(Frame, EveryOpRoundTripsWithWhatItMayCarry) {
  for (int op = 1; op <= 21; ++op) {
    Header header;
    header.op = static_cast<Op>(op);
    std::vector<std::byte> payload;
    if (header.op == Op::kHello) payload = FramePayload(kHelloBytes);
    if (header.op == Op::kSeed) payload = FramePayload(16);
    if (header.op == Op::kAttach) payload = FramePayload(8);
    if (header.op == Op::kHandshake) payload = FramePayload(245);
    if (header.op == Op::kError) {
      header.error = ErrorCode::kWrongJob;
      payload = FramePayload(11);
    }
    if (header.op == Op::kInit || header.op == Op::kAnswer || header.op == Op::kCutAnswer) {
      payload = FramePayload(8);
      header.element_count = 2;
    }
    header.payload_checksum = Checksum(payload);
    EXPECT_TRUE(DecodeHeader(header, payload).ok()) << ToString(header.op);
  }
}

TEST(Frame, AHandshakeHasBytesButNotManyAndNoElements) {
  Header header;
  header.op = Op::kHandshake;
  const auto refused = [&](size_t bytes) {
    const std::vector<std::byte> payload = FramePayload(bytes);
    header.payload_checksum = Checksum(payload);
    return !DecodeHeader(header, payload).ok();
  };
  EXPECT_TRUE(refused(0));
  EXPECT_FALSE(refused(16 << 10));
  EXPECT_TRUE(refused((16 << 10) + 1));
  header.element_count = 2;
  EXPECT_TRUE(refused(8));
}

TEST(Frame, AFlippedBitAnywhereIsRefused) {
  const HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  const std::vector<std::byte> payload = FramePayload(24);
  ASSERT_TRUE(TryDecode(bytes, payload).ok());
  for (size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    HeaderBytes changed = bytes;
    changed[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(TryDecode(changed, payload).ok()) << "header bit " << bit;
  }
  for (size_t bit = 0; bit < payload.size() * 8; ++bit) {
    std::vector<std::byte> changed = payload;
    changed[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    ExpectRefused(TryDecode(bytes, changed), "payload_checksum");
  }
}

TEST(Frame, AnyOtherLengthOfHeaderOrPayloadIsRefused) {
  const HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back(std::byte{0});
  const std::vector<std::byte> payload = FramePayload(24);
  for (size_t size = 0; size < kHeaderBytes; ++size) {
    ExpectRefused(TryDecode(absl::MakeConstSpan(bytes).first(size), payload), "header is");
  }
  ExpectRefused(TryDecode(longer, payload), "header is 129 bytes");
  for (size_t size = 0; size < payload.size(); ++size) {
    ExpectRefused(TryDecode(bytes, absl::MakeConstSpan(payload).first(size)), "payload_bytes");
  }
  ExpectRefused(TryDecode(bytes, FramePayload(25)), "payload_bytes is 24, but 25 came");
}

TEST(Frame, BadMagicIsRefused) { ExpectRefused(DecodeWith(0, 'X'), "magic"); }

TEST(Frame, AnotherVersionIsRefusedByNameWhateverItsChecksum) {
  ExpectRefused(DecodeWith(4, 2), "wire_version is 2, not 1");
  HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  bytes[4] = std::byte{9};
  ExpectRefused(TryDecode(bytes, FramePayload(24)), "wire_version is 9, not 1");
}

TEST(Frame, OpZeroAndUnknownOpsAreRefused) {
  for (const int op : {0, 27, 255}) ExpectRefused(DecodeWith(5, op), "op is");
}

TEST(Frame, UnknownFlagsAreRefused) {
  for (const int bit : {2, 3, 4, 5, 6, 7}) ExpectRefused(DecodeWith(6, 1 << bit), "flags");
}

TEST(Frame, UnknownKeySpacesAreRefused) { ExpectRefused(DecodeWith(7, 2), "key_space is 2"); }

TEST(Frame, UnknownDtypesAreRefused) { ExpectRefused(DecodeWith(8, 1), "dtype is 1"); }

TEST(Frame, UnknownCodecsAreRefused) { ExpectRefused(DecodeWith(9, 6), "codec is 6"); }

TEST(Frame, APayloadHasTheSizeOfItsCodec) {
  ExpectRefused(DecodeWith(9, 1), "6 elements as fp16 are 16 bytes, but payload_bytes is 24");
  for (uint8_t codec = 0; codec < kCodecs; ++codec) {
    Header header = FullHeader(), decoded;
    header.codec = static_cast<Codec>(codec);
    header.element_count = 3000;
    const size_t size = EncodedBytesMax(header.codec, 3000);
    header.payload_checksum = Checksum(FramePayload(size));
    const absl::Status status =
        Decode(EncodeHeader(header, size), FramePayload(size), Limits{}, &decoded);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(decoded, header);
    header.payload_checksum = Checksum(FramePayload(size - 1));
    ExpectRefused(DecodeHeader(header, FramePayload(size - 1)), ToString(header.codec));
  }
}

TEST(Frame, ACodecWhereThereAreNoElementsIsRefused) {
  Header header;
  header.codec = Codec::kInt8;
  header.op = Op::kRetire;
  ExpectRefused(DecodeHeader(header, {}), "codec is int8 in op RETIRE, which carries no elements");
  header.op = Op::kPushPull;
  header.flags = kFlagEmpty;
  ExpectRefused(DecodeHeader(header, {}), "codec is int8 in op PUSHPULL");
}

TEST(Frame, PayloadsThatAreNeitherInlineNorAReferenceAreRefused) {
  ExpectRefused(DecodeWith(10, 1), "reference to a region of 24 bytes, not 32");
  ExpectRefused(DecodeWith(10, 2), "payload_kind is 2");
}

TEST(Frame, OnlyElementsMayComeByReference) {
  Header header;
  header.payload_kind = PayloadKind::kRegion;
  header.payload_checksum = Checksum(FramePayload(kRegionReferenceBytes));
  header.op = Op::kError;
  header.error = ErrorCode::kWrongJob;
  ExpectRefused(DecodeHeader(header, FramePayload(kRegionReferenceBytes)),
                "payload_kind is REGION in op ERROR");
  header.error = ErrorCode::kNone;
  header.op = Op::kPushPull;
  header.element_count = 1 << 20;
  EXPECT_TRUE(DecodeHeader(header, FramePayload(kRegionReferenceBytes)).ok());
}

TEST(Frame, AnAttachNamesOneSession) {
  Header header;
  header.op = Op::kAttach;
  for (const size_t size : {0, 7, 16}) {
    header.payload_checksum = Checksum(FramePayload(size));
    ExpectRefused(DecodeHeader(header, FramePayload(size)),
                  absl::StrFormat("ATTACH of %d bytes, not 8", size));
  }
}

TEST(Frame, AnErrorCodeOutsideOfErrorAndRetryIsRefused) {
  ExpectRefused(DecodeWith(11, 3), "error is WRONG_VIEW in op PUSHPULL");
  ExpectRefused(DecodeWith(11, 16), "error is 16");
  Header retry;
  retry.op = Op::kRetry;
  retry.error = ErrorCode::kWrongView;
  EXPECT_TRUE(DecodeHeader(retry, {}).ok());
}

TEST(Frame, AnErrorWithoutACodeIsRefused) {
  Header header;
  header.op = Op::kError;
  ExpectRefused(DecodeHeader(header, {}), "error is NONE");
}

TEST(Frame, DeclaredAndActualPayloadMustAgree) {
  ExpectRefused(DecodeWith(88, 20), "payload_bytes is 20, but 24 came");
  ExpectRefused(DecodeWith(95, 1), "but 24 came");
}

TEST(Frame, APayloadOverTheLimitIsRefused) {
  Header header = FullHeader();
  EXPECT_TRUE(DecodeHeader(header, FramePayload(24), {.payload_bytes_max = 24}).ok());
  ExpectRefused(DecodeHeader(header, FramePayload(24), {.payload_bytes_max = 23}),
                "over the limit of 23");
}

TEST(Frame, ElementsAndPayloadMustAgree) {
  ExpectRefused(DecodeWith(36, 5), "5 elements as fp32 are 20 bytes, but payload_bytes is 24");
  ExpectRefused(DecodeWith(36, 7), "7 elements as fp32 are 28 bytes, but payload_bytes is 24");
}

TEST(Frame, AnElementCountWhoseBytesOverflow32BitsIsRefused) {
  Header header = FullHeader();
  // 4 * (2^30 + 6) is 24 in 32 bits.
  header.element_count = (1u << 30) + 6;
  ExpectRefused(DecodeHeader(header, FramePayload(24)), "1073741830 elements as fp32");
}

TEST(Frame, PayloadOrElementsWhereTheOpHasNoneAreRefused) {
  for (const Op op : {Op::kHelloOk, Op::kInitOk, Op::kCut, Op::kRetire, Op::kRetireOk}) {
    Header header;
    header.op = op;
    header.payload_checksum = Checksum(FramePayload(4));
    ExpectRefused(DecodeHeader(header, FramePayload(4)),
                  "payload of 4 bytes in op " + ToString(op));
    header.element_count = 1;
    ExpectRefused(DecodeHeader(header, FramePayload(4)),
                  "element_count is 1 in op " + ToString(op));
  }
}

TEST(Frame, AHelloOfAnotherLengthIsRefused) {
  Header header;
  header.payload_checksum = Checksum(FramePayload(31));
  ExpectRefused(DecodeHeader(header, FramePayload(31)), "HELLO of 31 bytes");
}

TEST(Frame, AWrongChecksumOfHeaderOrPayloadIsRefused) {
  HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  bytes[127] ^= std::byte{1};
  ExpectRefused(TryDecode(bytes, FramePayload(24)), "header_checksum");
  ExpectRefused(DecodeWith(112, 0), "payload_checksum");
  Header header;
  header.op = Op::kRetire;
  header.payload_checksum = 1;
  ExpectRefused(DecodeHeader(header, {}), "payload_checksum");
}

TEST(Frame, EmptyIsForPushesWithoutPayloadOnly) {
  Header header = FullHeader();
  header.flags = kFlagEmpty;
  ExpectRefused(DecodeHeader(header, FramePayload(24)), "EMPTY with a payload of 24 bytes");
  header.element_count = 0;
  header.payload_checksum = 0;
  EXPECT_TRUE(DecodeHeader(header, {}).ok());
  header.op = Op::kRetire;
  ExpectRefused(DecodeHeader(header, {}), "flag EMPTY in op RETIRE");
}

TEST(Frame, ARefusedFrameLeavesTheHeaderAlone) {
  HeaderBytes bytes = EncodeHeader(FullHeader(), 24);
  Header header;
  EXPECT_FALSE(Decode(bytes, FramePayload(25), Limits{}, &header).ok());
  EXPECT_EQ(header, Header{});
}

TEST(Describe, NamesWhatALogReaderNeeds) {
  Header header = FullHeader();
  header.job = 3;
  header.node = 1;
  header.incarnation = 2;
  header.chunk = 17;
  header.clock = 5;
  header.version = 0;
  EXPECT_EQ(Describe(header), "PUSHPULL job 3 node 1.2 chunk 17 clock 5 elements 6 REPLAY");
}

TEST(Checksum, OfNothingIsZero) {
  EXPECT_EQ(Checksum({}), 0);
  EXPECT_NE(Checksum(FramePayload(1)), 0);
}

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

// Such a frame equals one from before rates existed.
TEST(FrameRate, WithoutARateItsPlaceIsZero) {
  Header header = Push();
  header.rate = 0;
  const std::array<std::byte, kHeaderBytes> bytes = EncodeHeader(header, 24);
  for (size_t i = 84; i < 88; ++i) EXPECT_EQ(bytes[i], std::byte{0});
}

// Sequenced frames: between nodes, and from a primary to its backup.

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

void ExpectHelloRefused(const absl::Status& status, const std::string& text) {
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
  ExpectHelloRefused(DecodeHello(absl::MakeConstSpan(bytes).first(31), &hello),
                     "HELLO of 31 bytes");
  for (const uint8_t role : {0, 3, 255}) {
    bytes = EncodeHello(Hello{});
    bytes[4] = static_cast<std::byte>(role);
    ExpectHelloRefused(DecodeHello(bytes, &hello), "HELLO role");
  }
}

TEST(Frame, OfRowsHasItsOwnOpsAndPayloads) {
  const auto status = [](Op op, uint32_t elements, size_t bytes, KeySpace space = KeySpace::kRows) {
    const std::vector<std::byte> payload = FramePayload(bytes);
    return DecodeHeader({.op = op,
                         .key_space = space,
                         .element_count = elements,
                         .payload_checksum = Checksum(payload)},
                        payload);
  };
  // A header does not tell whether sections have so many values: the job's tables do.
  EXPECT_TRUE(status(Op::kPushPull, 3, 41).ok());
  EXPECT_TRUE(status(Op::kLookup, 0, 41).ok());
  EXPECT_TRUE(status(Op::kRows, 3, 12).ok());
  EXPECT_TRUE(status(Op::kAnswer, 0, 0).ok());
  EXPECT_TRUE(status(Op::kRetire, 0, 0).ok());
  ExpectRefused(status(Op::kRows, 3, 13), "payload_bytes is 13");
  // A few bytes of a sparse payload could stand for any number of values.
  const std::vector<std::byte> four = FramePayload(4);
  ExpectRefused(DecodeHeader({.op = Op::kRows,
                              .key_space = KeySpace::kRows,
                              .codec = Codec::kSparse,
                              .element_count = 1 << 20,
                              .payload_checksum = Checksum(four)},
                             four),
                "but rows are fp32");
  ExpectRefused(status(Op::kInit, 3, 12), "key_space is ROWS in op INIT");
  ExpectRefused(status(Op::kHello, 0, kHelloBytes), "key_space is ROWS in op HELLO");
  ExpectRefused(status(Op::kLookup, 0, 41, KeySpace::kDense), "key_space is DENSE in op LOOKUP");
  ExpectRefused(status(Op::kRows, 0, 0, KeySpace::kDense), "key_space is DENSE in op ROWS");
}

}  // namespace
}  // namespace strata::wire
