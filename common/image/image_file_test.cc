#include "common/image/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <memory>

#include "common/file/direct_file.h"
#include "common/image/image_bytes.h"
#include "common/image/safetensors.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

Bytes Whole(const ImageFile& file) { return OwnBytes(Joined(file)); }

std::vector<float> Values(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

ChunkImage First() {
  return {.begin = 0,
          .clock = 100,
          .weights = {.version = 100,
                      .updates = 98,
                      .samples = std::numeric_limits<uint64_t>::max(),
                      .weights = FloatBytes({1, -0.0f, 3}),
                      .state = {FloatBytes({4, 5, 6}), FloatBytes({1e-45f, 3e38f, 9})}},
          .applied = {100, 101},
          .copy = FloatBytes({1, 2, 2.5f}),
          .mean_square = FloatBytes({7, 7, 7})};
}

ChunkImage Second() {
  return {.begin = 3, .clock = 100, .weights = {.version = 7, .weights = FloatBytes({8})}};
}

void ExpectSame(const ChunkImage& a, const ChunkImage& b) {
  EXPECT_EQ(a.begin, b.begin);
  EXPECT_EQ(a.clock, b.clock);
  EXPECT_EQ(a.weights.version, b.weights.version);
  EXPECT_EQ(a.weights.updates, b.weights.updates);
  EXPECT_EQ(a.weights.samples, b.weights.samples);
  EXPECT_EQ(a.applied, b.applied);
  ASSERT_EQ(a.weights.state.size(), b.weights.state.size());
  std::vector<std::pair<Bytes, Bytes>> vectors = {
      {a.weights.weights, b.weights.weights}, {a.copy, b.copy}, {a.mean_square, b.mean_square}};
  for (size_t i = 0; i < a.weights.state.size(); ++i) {
    vectors.emplace_back(a.weights.state[i], b.weights.state[i]);
  }
  for (const auto& [x, y] : vectors) {
    ASSERT_EQ(x.size(), y.size());
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size()), 0);
  }
}

TEST(ImageFile, WhatIsWrittenIsReadAgainBitForBit) {
  const std::vector<ChunkImage> images = {Second(), First()};
  const auto read = ParseImageFile(Whole(MakeImageFile(images)), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  ExpectSame((*read)[0], First());
  ExpectSame((*read)[1], Second());
}

TEST(ImageFile, HoldsNothingWhereAServerHasNoChunk) {
  const auto read = ParseImageFile(Whole(MakeImageFile({})), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->empty());
}

TEST(ImageFile, KeepsItsContentAlive) {
  std::vector<ChunkImage> images;
  {
    const Bytes content = Whole(MakeImageFile(std::vector<ChunkImage>{Second()}));
    images = *ParseImageFile(content, "f");
  }
  EXPECT_EQ(Values(images[0].weights.weights), std::vector<float>{8});
}

// A bit anywhere in the head may leave a file that is right in itself; it then still is one of
// images, whose vectors fit.
TEST(ImageFile, ATruncatedFileIsRefusedAtEveryOffset) {
  const Bytes content = Whole(MakeImageFile(std::vector<ChunkImage>{First(), Second()}));
  for (size_t size = 0; size < content.size(); ++size) {
    const auto read = ParseImageFile(content.Part(0, size), "cut");
    ASSERT_FALSE(read.ok()) << size;
    ASSERT_THAT(std::string(read.status().message()), HasSubstr("cut: ")) << size;
  }
}

// So that it can be written from memory as it is: see common/file/direct_file.h.
TEST(ImageFile, ValuesOfALargeFileBeginAtABlock) {
  const std::vector<float> some(kDirectBytesMin / sizeof(float) + 1, 3);
  ChunkImage image = {.begin = 0, .clock = 1, .weights = {.weights = FloatBytes(some)}};
  const ImageFile large = MakeImageFile({&image, 1});
  EXPECT_EQ(large.head.size() % kDirectAlignment, 0u);
  EXPECT_TRUE(ParseImageFile(Whole(large), "f").ok());
  image.weights.weights = FloatBytes({3});
  EXPECT_LT(MakeImageFile({&image, 1}).head.size(), 1000u)
      << "a small one takes no more than before";
}

class Refused : public ::testing::Test {
 protected:
  // What MakeImageFile would not write.
  static void Expect(const std::map<std::string, std::string>& metadata,
                     const std::vector<std::pair<std::string, std::vector<float>>>& tensors,
                     const std::string& text) {
    std::vector<TensorToSave> to_save;
    for (const auto& [name, values] : tensors) to_save.push_back({name, {values.size()}, values});
    ImageFile file = {.head = SafetensorsHead(metadata, to_save)};
    for (const auto& [name, values] : tensors) file.values.push_back(FloatBytes(values));
    const auto read = ParseImageFile(Whole(file), "dir/f");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("dir/f: "));
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(text));
  }
};

constexpr char kCounts[] =
    R"({"applied":[],"clock":1,"samples":1,"state":0,"updates":1,"version":1})";
constexpr char kCountsOfState[] =
    R"({"applied":[],"clock":1,"samples":1,"state":1,"updates":1,"version":1})";

TEST_F(Refused, WithTheReason) {
  const std::pair<const std::string, std::string> format = {"format", kImageFormat};
  Expect({}, {}, "format is not strata-chunks-1");
  Expect({{"format", "strata-chunks-2"}}, {}, "format is not strata-chunks-1");
  Expect({format, {"x", kCounts}}, {}, "image x has no number for a name");
  Expect({format, {"07", kCounts}}, {}, "image 07 has no number for a name");
  Expect({format, {"0", "[]"}}, {}, "image 0 has counts that are not a JSON object");
  Expect({format, {"0", R"({"clock":1})"}}, {}, "image 0 lacks a count");
  Expect(
      {format, {"0", R"({"applied":3,"clock":1,"samples":1,"state":0,"updates":1,"version":1})"}},
      {}, "image 0 does not say what is applied");
  Expect(
      {format, {"0", R"({"applied":[],"clock":1,"samples":1,"state":9,"updates":1,"version":1})"}},
      {}, "image 0 has too many vectors of state");
  Expect(
      {format, {"0", R"({"applied":[],"clock":-1,"samples":1,"state":0,"updates":1,"version":1})"}},
      {}, "image 0 lacks a count");
  Expect({format, {"0", kCounts}}, {}, "image 0 has no weights");
  Expect({format, {"0", kCountsOfState}}, {{"0/weights", {1}}},
         "image 0 has no state0 as long as its weights");
  Expect({format, {"0", kCountsOfState}}, {{"0/weights", {1}}, {"0/state0", {1, 2}}},
         "image 0 has no state0 as long as its weights");
  Expect({format, {"0", kCounts}}, {{"0/weights", {1}}, {"0/copy", {1, 2}}},
         "image 0 has vectors of several lengths");
  Expect({format, {"0", kCounts}}, {{"0/weights", {1}}, {"1/weights", {1}}},
         "1/weights belongs to no image");
  Expect({format, {"0", kCounts}, {"1", kCounts}}, {{"0/weights", {1, 2}}, {"1/weights", {1}}},
         "image 0 overlaps the next one");
  Expect({format, {"18446744073709551615", kCounts}}, {{"18446744073709551615/weights", {1, 2}}},
         "has a range beyond all numbers");
  Expect({format, {"0", kCounts}}, {{"0/weights", {std::numeric_limits<float>::quiet_NaN()}}},
         "0/weights holds NaN or infinity");
}

}  // namespace
}  // namespace strata
