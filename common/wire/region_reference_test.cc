#include "common/wire/region_reference.h"

#include <gtest/gtest.h>

namespace strata::wire {
namespace {

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
