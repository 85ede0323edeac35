#include "common/image/rows_image.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace strata {
namespace {

RowsImage SomeImage() {
  RowsImage image = {.clock = 12, .buckets = 8, .is_last = true, .parts = {}, .tables = {}};
  image.parts = {{.bucket = 2, .version = 30, .applied = {12, 14}}, {.bucket = 7, .version = 3}};
  TableRows users = {.table = 1, .name = "users", .columns = 2, .state_columns = 1};
  users.ids = {5, (uint64_t{1} << 63) - 1};
  users.clocks = {3, 11};
  users.pushes = {1, 65535};
  users.weights = {0.5f, -1.5f, 2, 3};
  users.state = {0.25f, 4};
  image.tables.push_back(users);
  TableRows bias = {.table = 4, .name = "bias", .columns = 1, .state_columns = 0};
  bias.ids = {9};
  bias.clocks = {0};
  bias.pushes = {1};
  bias.weights = {-0.0f};
  image.tables.push_back(bias);
  return image;
}

Bytes ContentOf(const std::string& text) {
  const auto owner = std::make_shared<const std::string>(text);
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size());
}

std::string TextOf(RowsImage image) {
  const ImageFile file = MakeRowsImageFile(std::move(image));
  std::string text;
  for (const absl::Span<const char> piece : file.Pieces()) text.append(piece.data(), piece.size());
  return text;
}

TEST(RowsImageFile, ComesBackAsItWent) {
  const absl::StatusOr<RowsImage> read = ParseRowsImageFile(ContentOf(TextOf(SomeImage())), "rows");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->clock, 12u);
  EXPECT_EQ(read->buckets, 8u);
  EXPECT_TRUE(read->is_last);
  ASSERT_EQ(read->parts.size(), 2u);
  EXPECT_EQ(read->parts[0].version, 30u);
  EXPECT_EQ(read->parts[0].applied, (std::vector<uint64_t>{12, 14}));
  EXPECT_TRUE(read->parts[1].applied.empty());
  ASSERT_EQ(read->tables.size(), 2u);
  const RowsImage expected = SomeImage();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->tables[i].name, expected.tables[i].name);
    EXPECT_EQ(read->tables[i].ids, expected.tables[i].ids);
    EXPECT_EQ(read->tables[i].clocks, expected.tables[i].clocks);
    EXPECT_EQ(read->tables[i].pushes, expected.tables[i].pushes);
    EXPECT_EQ(read->tables[i].weights, expected.tables[i].weights);
    EXPECT_EQ(read->tables[i].state, expected.tables[i].state);
  }
}

TEST(RowsImageFile, MayHaveNoRowsAtAll) {
  const RowsImage empty = {.clock = 1, .buckets = 1, .is_last = false, .parts = {}, .tables = {}};
  EXPECT_TRUE(ParseRowsImageFile(ContentOf(TextOf(empty)), "rows").ok());
}

TEST(RowsImageFile, WhatIsWrongIsNamed) {
  const auto why = [](const std::string& text) {
    return std::string(ParseRowsImageFile(ContentOf(text), "f").status().message());
  };
  const auto with = [](auto change) {
    RowsImage image = SomeImage();
    change(image);
    return TextOf(std::move(image));
  };
  EXPECT_TRUE(absl::StrContains(why("x"), "f: not a safetensors file"));
  EXPECT_EQ(why(with([](RowsImage& image) { image.buckets = 5000; })),
            "f: rows: buckets is not in 1 to 4096");
  EXPECT_EQ(why(with([](RowsImage& image) { image.parts[0].bucket = 8; })),
            "f: rows: a part lacks bucket, version or applied");
  EXPECT_EQ(why(with([](RowsImage& image) { std::swap(image.tables[0], image.tables[1]); })),
            "f: rows: its tables do not ascend");
  EXPECT_EQ(why(with([](RowsImage& image) { image.tables[0].ids[0] = uint64_t{1} << 63; })),
            "f: table \"users\" (1) has an id below 0");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(why(with([](RowsImage& image) { image.tables[0].state[1] = kInfinity; })), "");
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(why(with([](RowsImage& image) { image.tables[0].state[1] = kNan; })),
            "f: table \"users\" (1) holds NaN or infinity");
  EXPECT_EQ(why(with([](RowsImage& image) { image.tables[0].weights[1] = kInfinity; })),
            "f: table \"users\" (1) holds NaN or infinity");
  EXPECT_TRUE(
      absl::StrContains(why(with([](RowsImage& image) { image.tables[0].clocks.pop_back(); })),
                        "tensor 1/clocks has data_offsets that do not fit its shape"));
  const std::string good = TextOf(SomeImage());
  EXPECT_EQ(why(absl::StrReplaceAll(good, {{"strata-rows-1", "strata-rows-9"}})),
            "f: format is not strata-rows-1");
  EXPECT_EQ(why(absl::StrReplaceAll(good, {{"\"1/pushes\"", "\"3/pushes\""}})),
            "f: table \"users\" (1) has a tensor of another shape or type, or lacks one");
  EXPECT_EQ(why(absl::StrReplaceAll(good, {{"\"4/ids\"", "\"4/odd\""}})),
            "f: table \"bias\" (4) has no ids");
}

}  // namespace
}  // namespace strata
