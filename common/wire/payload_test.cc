#include "common/wire/payload.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/os/limits.h"
#include "common/wire/region_reference.h"

namespace strata::wire {
namespace {

constexpr Codec kDense[] = {Codec::kNone, Codec::kFloat16, Codec::kBFloat16, Codec::kInt8,
                            Codec::kOneBit};

TEST(Payload, SizesAreThoseOfTheTable) {
  EXPECT_EQ(EncodedBytesMax(Codec::kNone, 2049), 8196u);
  EXPECT_EQ(EncodedBytesMax(Codec::kFloat16, 2049), 3 * 4 + 4098u);
  EXPECT_EQ(EncodedBytesMax(Codec::kBFloat16, 2049), 4098u);
  EXPECT_EQ(EncodedBytesMax(Codec::kInt8, 2049), 3 * 4 + 2049u);
  EXPECT_EQ(EncodedBytesMax(Codec::kOneBit, 2049), 3 * 4 + 257u);
  EXPECT_EQ(EncodedBytesMax(Codec::kSparse, 2049), 4 + 8 * 1024u);
  for (Codec codec : kDense) EXPECT_EQ(EncodedBytesMax(codec, 0), 0u) << ToString(codec);
  EXPECT_EQ(EncodedBytesMax(Codec::kSparse, 0), 4u);
}

TEST(Payload, EveryChunkFitsIntoAFrameWithEveryCodec) {
  for (int codec = 0; codec < kCodecs; ++codec) {
    EXPECT_LE(EncodedBytesMax(static_cast<Codec>(codec), kChunkElementsMax), kFramePayloadBytesMax);
  }
  for (uint64_t n = 3; n < 3000; ++n) EXPECT_LE(EncodedBytesMax(Codec::kSparse, n), 4 * n);
}

TEST(Payload, ADensePayloadOfOneByteMoreOrLessIsRefused) {
  for (Codec codec : kDense) {
    for (uint64_t n : {1, 7, 8, 9, 1023, 1024, 1025, 70001}) {
      const uint64_t bytes = EncodedBytesMax(codec, n);
      EXPECT_TRUE(CheckEncodedBytes(codec, n, bytes).ok());
      for (uint64_t wrong : {bytes - 1, bytes + 1, uint64_t{0}}) {
        EXPECT_EQ(CheckEncodedBytes(codec, n, wrong).code(), absl::StatusCode::kInvalidArgument);
      }
    }
  }
  EXPECT_EQ(CheckEncodedBytes(Codec::kInt8, 1025, 1030).message(),
            "1025 elements as int8 are 1033 bytes, but payload_bytes is 1030");
}

TEST(Payload, ASparsePayloadHoldsAtMostItsCountMaxAndWholeElements) {
  for (uint64_t count = 0; count <= 4; ++count) {
    EXPECT_TRUE(CheckEncodedBytes(Codec::kSparse, 10, 4 + 8 * count).ok());
  }
  for (uint64_t wrong : {0, 3, 5, 8, 11, 37, 44, 84}) {
    EXPECT_EQ(CheckEncodedBytes(Codec::kSparse, 10, wrong).code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_EQ(CheckEncodedBytes(Codec::kSparse, 10, 44).message(),
            "10 elements as sparse are 4 + 8 k <= 36 bytes, but payload_bytes is 44");
  EXPECT_TRUE(CheckEncodedBytes(Codec::kSparse, 1, 12).ok());
  EXPECT_FALSE(CheckEncodedBytes(Codec::kSparse, 0, 12).ok());
}

TEST(Payload, AnUnknownCodecIsRefusedAlsoWithoutAByte) {
  const absl::Status status = CheckEncodedBytes(static_cast<Codec>(kCodecs), 522, 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "codec is 6, which is unknown");
}

TEST(Payload, TheLargestScalesLeaveEveryElementFinite) {
  EXPECT_TRUE(std::isfinite(127 * kInt8ScaleMax));
  EXPECT_TRUE(std::isfinite(65504 * kFloat16ScaleMax));
  EXPECT_EQ(0x1p-24f * kFloat16ScaleMin, 0x1p-149f);
}

constexpr RegionReference kReference = {.segment = 0x04030201,
                                        .slot = 0x08070605,
                                        .ticket = 0x100f0e0d0c0b0a09,
                                        .offset = 0x1817161514131211,
                                        .bytes = 24};

Header SixFloats() {
  Header header;
  header.op = Op::kPushPull;
  header.payload_kind = PayloadKind::kRegion;
  header.element_count = 6;
  return header;
}

TEST(RegionReference, SurvivesARoundTripInTheDocumentedLayout) {
  const auto bytes = EncodeReference(kReference);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(static_cast<size_t>(bytes[i]), i + 1);
  EXPECT_EQ(static_cast<size_t>(bytes[24]), 24u);
  RegionReference decoded;
  ASSERT_TRUE(DecodeReference(SixFloats(), bytes, &decoded).ok());
  EXPECT_EQ(decoded, kReference);
}

TEST(RegionReference, ItsSizeIsTheOneOfTheElements) {
  for (const uint64_t wrong : {0, 20, 28}) {
    RegionReference reference = kReference;
    reference.bytes = wrong;
    EXPECT_EQ(DecodeReference(SixFloats(), EncodeReference(reference), &reference).code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(RegionReference, TicketZeroIsRefused) {
  RegionReference reference = kReference;
  reference.ticket = 0;
  EXPECT_EQ(DecodeReference(SixFloats(), EncodeReference(reference), &reference).message(),
            "reference to a region with the ticket 0");
}

}  // namespace
}  // namespace strata::wire
