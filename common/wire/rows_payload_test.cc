#include "common/wire/rows_payload.h"

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::wire {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const std::vector<uint32_t> kColumns = {2, 1, 4};

std::string Refusal(const Bytes& payload, uint64_t elements) {
  return std::string(DecodedRows::Decode(payload, elements, kColumns).status().message());
}

// A copy of the payload, `changed`.
template <typename Change>
Bytes Changed(const Bytes& payload, const Change& changed) {
  const auto copy =
      std::make_shared<std::vector<std::byte>>(payload.data(), payload.data() + payload.size());
  changed(*copy);
  return Bytes(copy, copy->data(), copy->size());
}

void PutU32(std::vector<std::byte>& bytes, size_t at, uint32_t value) {
  std::memcpy(&bytes[at], &value, sizeof(value));
}

TEST(RowsPayload, ComesOutAsItWentIn) {
  const std::vector<uint64_t> dense = {0, 1, 2, 500}, sparse = {7, uint64_t{1} << 40, ~0ull >> 1};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8}, others = {9, 10, 11};
  const Bytes payload =
      EncodeRows({{.table = 0, .rate = 0.5f, .ids = dense, .values = values.data()},
                  {.table = 1, .rate = 0.0f, .ids = sparse, .values = others.data()}},
                 {{.table = 2, .ids = sparse}}, kColumns);
  const auto decoded = DecodedRows::Decode(payload, 11, kColumns);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->pushed().size(), 2u);
  EXPECT_EQ(decoded->pushed()[0].rate, 0.5f);
  EXPECT_THAT(decoded->pushed()[0].ids, ElementsAreArray(dense));
  EXPECT_EQ(std::memcmp(decoded->pushed()[0].values, values.data(), 32), 0);
  EXPECT_EQ(decoded->pushed()[1].table, 1u);
  EXPECT_EQ(std::memcmp(decoded->pushed()[1].values, others.data(), 12), 0);
  ASSERT_EQ(decoded->wanted().size(), 1u);
  EXPECT_EQ(decoded->wanted()[0].table, 2u);
  EXPECT_THAT(decoded->wanted()[0].ids, ElementsAreArray(sparse));
  EXPECT_EQ(decoded->wanted_values(), 12u);
  // Where it is not aligned.
  const Bytes shifted =
      Changed(payload, [](auto& bytes) { bytes.insert(bytes.begin(), std::byte{}); });
  const auto again = DecodedRows::Decode(shifted.Part(1, payload.size()), 11, kColumns);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(std::memcmp(again->pushed()[1].values, others.data(), 12), 0);
}

TEST(RowsPayload, IdsOfZipfTakeLessThanTwoBytes) {
  std::vector<uint64_t> ids;
  for (uint64_t id = 0, draw = 0; ids.size() < 1000; id += 1 + RandomBelow(1, ++draw, 100)) {
    ids.push_back(id);
  }
  EXPECT_LT(EncodeRows({}, {{.table = 0, .ids = ids}}, kColumns).size(), 1000u + 40u);
}

TEST(RowsPayload, WhatDoesNotFitIsRefusedWithTheTable) {
  const std::vector<uint64_t> ids = {3, 9};
  const std::vector<float> values = {1, 2, 3, 4};
  const Bytes payload = EncodeRows({{.table = 0, .rate = 1, .ids = ids, .values = values.data()}},
                                   {{.table = 1, .ids = ids}}, kColumns);
  constexpr size_t kFirst = 8, kSecond = 28, kIds = 48;
  ASSERT_EQ(Refusal(payload, 4), "");
  const auto refusal = [&](const auto& change) { return Refusal(Changed(payload, change), 4); };
  EXPECT_EQ(Refusal(payload, 5), "5 values, not 4");
  EXPECT_EQ(Refusal(Bytes(), 0), "the numbers of sections are missing");
  EXPECT_EQ(refusal([](auto& b) { b.resize(20); }), "sections are missing");
  EXPECT_EQ(refusal([](auto& b) { b.resize(kIds); }), "ids are missing");
  EXPECT_EQ(refusal([](auto& b) { b.resize(b.size() - 4); }), "12 bytes of 4 values");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst, 3); }), "table 3, but the job has 3");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst + 4, 0); }), "table 0: 0 rows in 2 bytes");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst + 4, ~0u); }),
            "table 0: 4294967295 rows in 2 bytes");
  EXPECT_EQ(Refusal(Changed(payload, [](auto& b) { PutU32(b, kFirst + 4, 1); }), 2),
            "table 0: more bytes than ids");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst + 12, 0x7fc00000); }), "table 0: rate is nan");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst + 12, 0xbf800000); }), "table 0: rate is -1");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kSecond + 12, 0x3f800000); }), "table 1: rate is 1");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst + 16, 2); }),
            "table 0: id_coding is 2, which is unknown");
  EXPECT_EQ(refusal([](auto& b) { PutU32(b, kFirst + 16, 0); }), "table 0: 2 rows in 2 bytes");
  EXPECT_EQ(refusal([](auto& b) { b[kIds + 3] = std::byte{1}; }), "padding is not 0");
  EXPECT_EQ(refusal([](auto& b) { b[kIds + 1] = std::byte{0x80}; }), "table 0: id 1 is no varint");
  // The pushed tables come first, and each once.
  const Bytes twice =
      EncodeRows({}, {{.table = 1, .ids = ids}, {.table = 1, .ids = ids}}, kColumns);
  EXPECT_EQ(Refusal(twice, 0), "table 1 comes twice");
}

TEST(RowsPayload, IdsAscendAreBelow2To63AndAsShortAsCanBe) {
  const auto refusal = [](uint32_t coding, const std::vector<uint8_t>& ids, uint32_t rows) {
    std::vector<std::byte> bytes(28);
    PutU32(bytes, 4, 1);  // wanted
    PutU32(bytes, 12, rows);
    PutU32(bytes, 16, static_cast<uint32_t>(ids.size()));
    PutU32(bytes, 24, coding);
    for (const uint8_t octet : ids) bytes.push_back(static_cast<std::byte>(octet));
    while (bytes.size() % 4 != 0) bytes.emplace_back();
    return Refusal(Changed(Bytes(), [&](auto& to) { to = bytes; }), 0);
  };
  const std::vector<uint8_t> five = {5, 0, 0, 0, 0, 0, 0, 0}, end = {0, 0, 0, 0, 0, 0, 0, 0x80};
  std::vector<uint8_t> twice = five;
  twice.insert(twice.end(), five.begin(), five.end());
  EXPECT_EQ(refusal(0, five, 1), "");
  EXPECT_EQ(refusal(0, twice, 2), "table 0: ids do not ascend");
  EXPECT_EQ(refusal(0, end, 1), "table 0: an id is not below 2^63");
  EXPECT_EQ(refusal(1, {0x85, 0x01}, 1), "");
  EXPECT_EQ(refusal(1, {0x85, 0x00}, 1), "table 0: id 0 is no varint");
  const std::vector<uint8_t> largest(8, 0xff);
  std::vector<uint8_t> most = largest, more = largest;
  most.push_back(0x7f);
  more.push_back(0x80);
  more.push_back(0x01);
  EXPECT_EQ(refusal(1, most, 1), "");
  EXPECT_EQ(refusal(1, more, 1), "table 0: id 0 is no varint");
  most.push_back(0);  // one more id
  EXPECT_EQ(refusal(1, most, 2), "table 0: an id is not below 2^63");
}

TEST(RowsPayload, AnAnswerThatNoFrameHoldsIsNotPrepared) {
  std::vector<uint64_t> ids((4 << 20) / 4 + 1);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const Bytes payload = EncodeRows({}, {{.table = 2, .ids = ids}}, kColumns);
  EXPECT_THAT(Refusal(payload, 0), HasSubstr("an answer of 4194308 values does not fit"));
}

}  // namespace
}  // namespace strata::wire
