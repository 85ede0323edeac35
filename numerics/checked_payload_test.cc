#include "numerics/checked_payload.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace strata::numerics {
namespace {

using wire::Codec;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A payload, put together from numbers of any size.
class Payload {
 public:
  template <typename T>
  Payload& Add(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  template <typename T>
  Payload With(size_t at, T value) const {
    Payload changed = *this;
    std::memcpy(changed.bytes_.data() + at, &value, sizeof value);
    return changed;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Payload Float16() {  // 1.5 * 2, -2^-24 * 2, 65504 * 2
  return Payload().Add(2.0f).Add<uint16_t>(0x3e00).Add<uint16_t>(0x8001).Add<uint16_t>(0x7bff);
}
Payload BFloat16() { return Payload().Add<uint16_t>(0x3fc0).Add<uint16_t>(0x8001); }
Payload Int8() { return Payload().Add(0.25f).Add<int8_t>(127).Add<int8_t>(-127).Add<int8_t>(3); }
Payload OneBit() { return Payload().Add(0.75f).Add<uint8_t>(0b00000101).Add<uint8_t>(0b10); }
Payload Sparse() { return Payload().Add(2u).Add(1u).Add(6u).Add(-0.5f).Add(4.0f); }

std::vector<float> Decode(Codec codec, size_t elements, const Payload& payload) {
  const auto checked = CheckedPayload::Check(kernels::Cpu(), codec, elements, payload.bytes());
  EXPECT_TRUE(checked.ok()) << checked.status();
  std::vector<float> out(elements, kNan);
  if (checked.ok()) checked->WriteTo(out.data());
  return out;
}

void ExpectRefused(Codec codec, size_t elements, const Payload& payload, const std::string& text) {
  const auto checked = CheckedPayload::Check(kernels::Cpu(), codec, elements, payload.bytes());
  EXPECT_EQ(checked.status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_NE(checked.status().message().find(text), absl::string_view::npos) << checked.status();
}

TEST(CheckedPayload, EveryFormatDecodesToWhatItsTableSays) {
  using Floats = std::vector<float>;
  EXPECT_EQ(Decode(Codec::kNone, 2, Payload().Add(1.5f).Add(-2.0f)), Floats({1.5f, -2.0f}));
  EXPECT_EQ(Decode(Codec::kFloat16, 3, Float16()), Floats({3.0f, -0x1p-23f, 131008.0f}));
  EXPECT_EQ(Decode(Codec::kBFloat16, 2, BFloat16()), Floats({1.5f, -0x1p-133f}));
  EXPECT_EQ(Decode(Codec::kInt8, 3, Int8()), Floats({31.75f, -31.75f, 0.75f}));
  EXPECT_EQ(Decode(Codec::kOneBit, 10, OneBit()),
            Floats({-0.75f, 0.75f, -0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f, 0.75f, -0.75f}));
  EXPECT_EQ(Decode(Codec::kOneBit, 10, OneBit().With(0, wire::kOneBitScaleZero)), Floats(10));
  EXPECT_EQ(Decode(Codec::kSparse, 7, Sparse()), Floats({0, -0.5f, 0, 0, 0, 0, 4.0f}));
  EXPECT_EQ(Decode(Codec::kSparse, 7, Payload().Add(0u)), Floats(7));
  for (int codec = 0; codec < 5; ++codec) {
    EXPECT_EQ(Decode(static_cast<Codec>(codec), 0, {}), Floats()) << codec;
  }
  EXPECT_EQ(Decode(Codec::kSparse, 0, Payload().Add(0u)), Floats());
}

TEST(CheckedPayload, AddsToAnotherVectorOrInPlaceAndNowhereElse) {
  struct Case {
    Codec codec;
    size_t elements;
    Payload payload;
  };
  for (const Case& c :
       {Case{Codec::kNone, 2, Payload().Add(1.5f).Add(-2.0f)}, Case{Codec::kFloat16, 3, Float16()},
        Case{Codec::kBFloat16, 2, BFloat16()}, Case{Codec::kInt8, 3, Int8()},
        Case{Codec::kOneBit, 10, OneBit()}, Case{Codec::kSparse, 7, Sparse()}}) {
    const std::vector<float> decoded = Decode(c.codec, c.elements, c.payload);
    const auto checked =
        CheckedPayload::Check(kernels::Cpu(), c.codec, c.elements, c.payload.bytes());
    ASSERT_TRUE(checked.ok());
    EXPECT_EQ(checked->elements(), c.elements);
    std::vector<float> base(c.elements + 1), expected(c.elements + 1, -7.0f);
    for (size_t i = 0; i <= c.elements; ++i) base[i] = i < c.elements ? 100.0f + i : -7.0f;
    for (size_t i = 0; i < c.elements; ++i) expected[i] = base[i] + decoded[i];
    std::vector<float> out(c.elements + 1, -7.0f);
    checked->AddTo(base.data(), out.data());
    EXPECT_EQ(out, expected) << wire::ToString(c.codec);
    checked->AddTo(base.data(), base.data());
    EXPECT_EQ(base, expected) << wire::ToString(c.codec);
  }
}

TEST(CheckedPayload, APayloadOfAnotherLengthIsRefused) {
  ExpectRefused(Codec::kNone, 3, Payload().Add(1.0f).Add(2.0f), "3 elements as fp32 are 12 bytes");
  ExpectRefused(Codec::kFloat16, 4, Float16(), "4 elements as fp16 are 12 bytes");
  ExpectRefused(Codec::kBFloat16, 1, BFloat16(), "1 elements as bf16 are 2 bytes");
  ExpectRefused(Codec::kInt8, 1025, Int8(), "1025 elements as int8 are 1033 bytes");
  ExpectRefused(Codec::kOneBit, 8, OneBit(), "8 elements as 1-bit are 5 bytes");
  ExpectRefused(Codec::kSparse, 4, Sparse(), "4 elements as sparse are 4 + 8 k <= 12 bytes");
  ExpectRefused(static_cast<Codec>(6), 1, Payload(), "codec is 6, which is unknown");
}

TEST(CheckedPayload, ACountThatIsNotThatOfThePayloadIsRefused) {
  for (uint32_t count : {0u, 1u, 3u, 0xffffffffu, 0x20000002u}) {
    ExpectRefused(Codec::kSparse, 7, Sparse().With(0, count), "count is " + std::to_string(count));
  }
}

TEST(CheckedPayload, UnsortedDuplicateAndOutOfRangeIndicesAreRefused) {
  ExpectRefused(Codec::kSparse, 8, Sparse().With(4, 7u), "ascend strictly to at most 7");
  ExpectRefused(Codec::kSparse, 8, Sparse().With(4, 6u), "ascend strictly to at most 7");
  ExpectRefused(Codec::kSparse, 8, Sparse().With(8, 8u), "ascend strictly to at most 7");
  ExpectRefused(Codec::kSparse, 8, Sparse().With(8, 0xffffffffu), "ascend strictly to at most 7");
}

TEST(CheckedPayload, ValuesThatAreNotFiniteAreRefused) {
  for (float bad : {kNan, kInfinity, -kInfinity}) {
    ExpectRefused(Codec::kSparse, 7, Sparse().With(16, bad), "a value is NaN or infinite");
    ExpectRefused(Codec::kNone, 1, Payload().Add(bad), "an element is NaN or infinite");
  }
  for (uint16_t bad : {0x7c00, 0xfc00, 0x7e01}) {
    ExpectRefused(Codec::kFloat16, 3, Float16().With(6, bad), "elements 0 to 2");
  }
  for (uint16_t bad : {0x7f80, 0xff80, 0x7fc1}) {
    ExpectRefused(Codec::kBFloat16, 2, BFloat16().With(2, bad), "elements 0 to 1");
  }
}

TEST(CheckedPayload, ScalesThatAreNanZeroInfiniteNegativeOrOutOfRangeAreRefused) {
  for (float bad : {kNan, 0.0f, -0.0f, kInfinity, -kInfinity, -0.25f, 0x1p-127f, 0x1p-149f}) {
    ExpectRefused(Codec::kFloat16, 3, Float16().With(0, bad), "scale or code");
    ExpectRefused(Codec::kInt8, 3, Int8().With(0, bad), "scale or code");
    ExpectRefused(Codec::kOneBit, 10, OneBit().With(0, bad), "scale or code");
  }
  for (float bad : {0x1p-126f, 0x1p113f, 3.0f, 1.0000001f}) {
    ExpectRefused(Codec::kFloat16, 3, Float16().With(0, bad), "scale or code");
  }
  for (float bad : {0x1p122f, 1.0000001f}) {
    ExpectRefused(Codec::kInt8, 3, Int8().With(0, bad), "scale or code");
  }
}

TEST(CheckedPayload, CodesThatNoEncoderWritesAreRefused) {
  ExpectRefused(Codec::kInt8, 3, Int8().With<int8_t>(5, -128), "elements 0 to 2");
  ExpectRefused(Codec::kOneBit, 10, OneBit().With<uint8_t>(5, 0b110), "elements 0 to 9");
  ExpectRefused(Codec::kOneBit, 10, OneBit().With<uint8_t>(5, 0b10000010), "elements 0 to 9");
}

TEST(CheckedPayload, TheElementsOfABadBlockAreNamed) {
  Payload payload;
  for (int block = 0; block < 3; ++block) payload.Add(0.5f);
  for (int i = 0; i < 2100; ++i) payload.Add<int8_t>(1);
  EXPECT_EQ(Decode(Codec::kInt8, 2100, payload), std::vector<float>(2100, 0.5f));
  ExpectRefused(Codec::kInt8, 2100, payload.With(4, kNan), "elements 1024 to 2047");
  ExpectRefused(Codec::kInt8, 2100, payload.With<int8_t>(12 + 2099, -128), "elements 2048 to 2099");
}

}  // namespace
}  // namespace strata::numerics
