#include "common/image/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/image/image_bytes.h"
#include "common/image/safetensors.h"
#include "common/os/direct_file.h"

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
                      .state = {FloatBytes({4, 5, 6}), FloatBytes({1e-45f, 3e38f, 9})},
                      .missed = FloatBytes({0, 2, 98})},
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
  std::vector<std::pair<Bytes, Bytes>> vectors = {{a.weights.weights, b.weights.weights},
                                                  {a.weights.missed, b.weights.missed},
                                                  {a.copy, b.copy},
                                                  {a.mean_square, b.mean_square}};
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

// A flipped bit in the head may leave a valid file; it then still is one of images, whose vectors
// fit.
TEST(ImageFile, ATruncatedFileIsRefusedAtEveryOffset) {
  const Bytes content = Whole(MakeImageFile(std::vector<ChunkImage>{First(), Second()}));
  for (size_t size = 0; size < content.size(); ++size) {
    const auto read = ParseImageFile(content.Part(0, size), "cut");
    ASSERT_FALSE(read.ok()) << size;
    ASSERT_THAT(std::string(read.status().message()), HasSubstr("cut: ")) << size;
  }
}

// So that it can be written from memory in place: see common/os/direct_file.h.
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
  // A file that MakeImageFile would not write.
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
    EXPECT_LT(read.status().message().size(), 400u);
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

// The metadata holds untrusted JSON.
TEST_F(Refused, OfCountsThatAreTooManyOrTooDeep) {
  const std::pair<const std::string, std::string> format = {"format", kImageFormat};
  const std::string no_object = "image 0 has counts that are not a JSON object";
  Expect({format, {"0", std::string(4 << 20, '[')}}, {}, no_object);
  Expect({format, {"0", R"({"applied":[)" + std::string(4 << 20, ',')}}, {}, no_object);
  // A name is one short line.
  const std::string name = "a\nb" + std::string(1 << 20, 'c');
  Expect({format, {name, kCounts}}, {}, "image a\\nbccc");
  Expect({format}, {{name, {1}}}, "dir/f: a\\nbccc");
}

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Reads a file in pieces of this many bytes.
absl::StatusOr<std::vector<ChunkImage>> Read(const std::string& file, size_t piece,
                                             const std::string& path = "f") {
  ImageStream stream(file.size(), path);
  std::vector<ChunkImage> images;
  for (size_t at = 0; at < file.size(); at += piece) {
    const std::string part = file.substr(at, piece);  // which is gone then
    if (absl::Status taken = stream.Take(part, &images); !taken.ok()) return taken;
  }
  absl::Status ended = stream.Finish();
  return ended.ok() ? absl::StatusOr<std::vector<ChunkImage>>(std::move(images)) : ended;
}

ChunkImage Image(uint64_t begin, std::vector<float> weights) {
  ChunkImage image{.begin = begin, .clock = 6, .applied = {6, 7}};
  image.weights = {.version = 6, .updates = 5, .samples = 80, .weights = FloatBytes(weights)};
  image.weights.state = {FloatBytes(weights)};
  return image;
}

std::string FileOf(const std::vector<ChunkImage>& images) { return Joined(MakeImageFile(images)); }

std::string Some() { return FileOf({Image(0, {1, 2, 3}), Image(3, {4}), Image(8, {5, 6})}); }

// A file with tensors and texts that MakeImageFile would not write.
std::string FileOf(const std::map<std::string, std::string>& metadata,
                   const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
  std::vector<TensorToSave> to_save;
  for (const auto& [name, values] : tensors) to_save.push_back({name, {values.size()}, values});
  ImageFile file = {.head = SafetensorsHead(metadata, to_save)};
  for (const auto& [name, values] : tensors) file.values.push_back(FloatBytes(values));
  return Joined(file);
}

constexpr char kStreamCounts[] =
    R"({"applied":[],"clock":1,"samples":1,"state":0,"updates":1,"version":1})";

TEST(ImageStream, ReadsWhatWasWrittenInPiecesOfAnySize) {
  const std::string file = Some();
  for (size_t piece = 1; piece <= file.size(); ++piece) {
    const auto images = Read(file, piece);
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_EQ(FileOf(*images), file) << piece;
  }
}

TEST(ImageStream, ReadsAFileOfNoImages) {
  const auto images = Read(FileOf(std::vector<ChunkImage>()), 5);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_THAT(*images, SizeIs(0));
}

TEST(ImageStream, AnImageIsHandedOnWithItsLastByte) {
  const std::string file = Some();
  ImageStream stream(file.size(), "f");
  std::vector<ChunkImage> images;
  std::vector<size_t> left;  // bytes of the file after each image
  for (size_t at = 0; at < file.size(); ++at) {
    const size_t before = images.size();
    ASSERT_TRUE(stream.Take({&file[at], 1}, &images).ok());
    if (images.size() > before) left.push_back(file.size() - at - 1);
  }
  EXPECT_THAT(left, ElementsAre((1 + 2) * 2 * sizeof(float), 2 * 2 * sizeof(float), 0));
}

// Images whose tensors are interleaved with those of others.
TEST(ImageStream, TensorsMayComeInAnyOrder) {
  const std::pair<const std::string, std::string> format = {"format", kImageFormat};
  const std::string file = FileOf(
      {format, {"0", kStreamCounts}, {"2", kStreamCounts}},
      {{"2/weights", {3, 4}}, {"0/copy", {7, 8}}, {"2/copy", {5, 6}}, {"0/weights", {1, 2}}});
  const auto images = Read(file, 3);
  ASSERT_TRUE(images.ok()) << images.status();
  ASSERT_THAT(*images, SizeIs(2));
  EXPECT_EQ((*images)[0].begin, 2);
  EXPECT_EQ((*images)[1].copy.floats()[1], 8);
}

TEST(ImageStream, ATruncatedFileIsRefusedAtEveryOffset) {
  const std::string file = Some();
  for (size_t size = 0; size < file.size(); ++size) {
    const auto images = Read(file.substr(0, size), 7, "cut");
    ASSERT_FALSE(images.ok()) << size;
    ASSERT_THAT(std::string(images.status().message()), HasSubstr("cut: ")) << size;
  }
}

// Both readers accept the same files, with each byte changed in turn.
TEST(ImageStream, AgreesWithTheReaderOfWholeFiles) {
  const std::string file = Some();
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int bit : {0, 1, 5, 7}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto whole = ParseImageFile(OwnBytes(changed), "f");
      auto images = Read(changed, 11);
      ASSERT_EQ(images.ok(), whole.ok()) << at << " " << images.status() << " " << whole.status();
      if (!whole.ok()) continue;
      std::sort(images->begin(), images->end(),
                [](const ChunkImage& a, const ChunkImage& b) { return a.begin < b.begin; });
      EXPECT_EQ(FileOf(*images), FileOf(*whole)) << at;
    }
  }
}

// A reader of the whole file could not use its values in place.
TEST(ImageStream, AHeadOfAnOddLengthIsRefusedLikeByTheReaderOfWholeFiles) {
  std::string file = Some();
  const size_t head = *SafetensorsHeadBytes(file, file.size(), "f");
  ASSERT_EQ(file[head - 1], ' ') << "no padding to take away";
  file.erase(head - 1, 1);
  const uint64_t length = head - 1 - kSafetensorsLengthBytes;
  std::memcpy(file.data(), &length, sizeof length);
  const absl::Status whole = ParseImageFile(OwnBytes(file), "f").status();
  EXPECT_THAT(whole.message(), HasSubstr("lies at an address where no fp32 may lie"));
  EXPECT_EQ(Read(file, 13).status(), whole);
}

TEST(ImageStream, RefusesWithTheReason) {
  const std::pair<const std::string, std::string> format = {"format", kImageFormat};
  const auto expect = [](const std::string& file, const std::string& text) {
    const auto images = Read(file, 10, "dir/f");
    ASSERT_FALSE(images.ok()) << text;
    EXPECT_EQ(images.status(), absl::InvalidArgumentError("dir/f: " + text));
  };
  expect(FileOf({{"format", "x"}}, {}), "format is not strata-chunks-1");
  expect(FileOf({format, {"0", kStreamCounts}}, {}), "image 0 has no weights");
  expect(FileOf({format, {"0", kStreamCounts}}, {{"0/copy", {1}}}), "image 0 has no weights");
  expect(FileOf({format, {"0", kStreamCounts}}, {{"1/weights", {1}}}),
         "1/weights belongs to no image");
  expect(FileOf({format, {"0", kStreamCounts}}, {{"0/weights", {1}}, {"0/state0", {1}}}),
         "0/state0 belongs to no image");
  expect(FileOf({format, {"0", kStreamCounts}}, {{"0/weights", {1, 1.0f / 0.0f}}}),
         "0/weights holds NaN or infinity");
  expect(FileOf({format, {"0", kStreamCounts}, {"1", kStreamCounts}},
                {{"0/weights", {1, 2}}, {"1/weights", {1, 2}}}),
         "image 0 overlaps the next one");
  expect(FileOf({format, {"0", kStreamCounts}}, {{"0/weights", {}}}), "image 0 has no weights");
}

Bytes NodeWhole(const ImageFile& file) { return OwnBytes(Joined(file)); }

std::string Text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

WeightImage Weights(float first) {
  return {.version = 9,
          .updates = 8,
          .samples = 7,
          .weights = FloatBytes({first, 2}),
          .state = {FloatBytes({3, first}), FloatBytes({5, 6})}};
}

NodeImage Full() {
  return {.node = 3,
          .clock = 120,
          .chunks = {{.begin = 0,
                      .elements = 2,
                      .push = PushImage{.unsent = {FloatBytes({1, -0.0f})}, .samples = 77},
                      .local = LocalStepsImage{.clock = 120,
                                               .last_samples = 12,
                                               .own = Weights(1),
                                               .start = FloatBytes({8, 9})}},
                     {.begin = 2, .elements = 2, .norms = Weights(4), .arena = FloatBytes({5, 5})},
                     {.begin = 4, .elements = 1, .push = PushImage{}}}};
}

TEST(NodeImageFile, WhatIsWrittenIsReadAgainBitForBit) {
  const Bytes content = NodeWhole(MakeNodeImageFile(Full()));
  const auto read = ParseNodeImageFile(content, "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->node, 3u);
  EXPECT_EQ(read->clock, 120u);
  ASSERT_EQ(read->chunks.size(), 3u);
  const NodeChunkImage& first = read->chunks[0];
  EXPECT_EQ(first.push->samples, 77u);
  EXPECT_EQ(Text(first.push->unsent[0]), Text(FloatBytes({1, -0.0f})));
  EXPECT_EQ(first.local->clock, 120u);
  EXPECT_EQ(first.local->last_samples, 12u);
  EXPECT_EQ(first.local->own.samples, 7u);
  EXPECT_EQ(Text(first.local->own.state[1]), Text(FloatBytes({5, 6})));
  EXPECT_EQ(Text(first.local->start), Text(FloatBytes({8, 9})));
  EXPECT_FALSE(first.norms.has_value());
  EXPECT_TRUE(first.arena.empty());
  EXPECT_EQ(Text(read->chunks[1].norms->weights), Text(FloatBytes({4, 2})));
  EXPECT_EQ(Text(read->chunks[1].arena), Text(FloatBytes({5, 5})));
  EXPECT_FALSE(read->chunks[1].push.has_value());
  EXPECT_TRUE(read->chunks[2].push->unsent.empty());
  // And nothing is omitted.
  EXPECT_EQ(Text(NodeWhole(MakeNodeImageFile(*read))), Text(content));
}

TEST(NodeImageFile, ATruncatedFileIsRefusedAtEveryOffset) {
  const Bytes content = NodeWhole(MakeNodeImageFile(Full()));
  for (size_t size = 0; size < content.size(); ++size) {
    const auto read = ParseNodeImageFile(content.Part(0, size), "cut");
    ASSERT_FALSE(read.ok()) << size;
    ASSERT_THAT(std::string(read.status().message()), HasSubstr("cut: ")) << size;
  }
}

void ExpectRefused(const std::vector<std::pair<std::string, std::string>>& texts,
                   const std::vector<std::pair<std::string, std::vector<float>>>& floats,
                   const std::string& why) {
  ImageWriter file(kNodeImageFormat);
  for (const auto& [name, text] : texts) file.AddText(name, text);
  for (const auto& [name, values] : floats) file.AddFloats(name, FloatBytes(values));
  const auto read = ParseNodeImageFile(NodeWhole(file.Finish()), "dir/f");
  ASSERT_FALSE(read.ok()) << why;
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read.status().message(), "dir/f: " + why);
}

TEST(NodeImageFile, WhatIsWrongIsNamed) {
  const std::pair<std::string, std::string> node = {"node", R"({"node": 1, "clock": 2})"};
  ExpectRefused({}, {}, "node is not said, or not its clock");
  ExpectRefused({{"node", "{}"}}, {}, "node is not said, or not its clock");
  ExpectRefused({node, {"x", R"({"elements": 1})"}}, {}, "image x has no number for a name");
  ExpectRefused({node, {"0", "{}"}}, {}, "image 0 does not say how many elements it has");
  ExpectRefused({node, {"0", R"({"elements": 0})"}}, {},
                "image 0 does not say how many elements it has");
  ExpectRefused({node, {"0", R"({"elements": 1, "push": {"samples": 1}})"}}, {},
                "image 0 lacks a count of push");
  ExpectRefused({node, {"0", R"({"elements": 1, "push": {"samples": 1, "unsent": 1}})"}}, {},
                "image 0 has no unsent0 as long as it says");
  ExpectRefused({node, {"0", R"({"elements": 1, "local": {"clock": 1}})"}}, {},
                "image 0 lacks a count of local");
  ExpectRefused({node, {"0", R"({"elements": 1, "norms": {}})"}}, {},
                "image 0 lacks a count of norms");
  ExpectRefused({node, {"0", R"({"elements": 1, "norms":
                           {"version": 1, "updates": 1, "samples": 1, "state": 0}})"}},
                {{"0/norms/weights", {1, 2}}}, "image 0 has no norms/weights as long as it says");
  ExpectRefused({node, {"0", R"({"elements": 1})"}}, {{"0/arena", {1, 2}}},
                "image 0 has no arena as long as it says");
  ExpectRefused({node}, {{"0/arena", {1}}}, "0/arena belongs to no image");
  ExpectRefused({node, {"0", R"({"elements": 2})"}, {"1", R"({"elements": 1})"}}, {},
                "image 0 overlaps the next one");
}

std::string File(const std::string& state) {
  return Joined(MakeRankImageFile({.rank = 258, .clock = 1ull << 40, .state = OwnBytes(state)}));
}

absl::Status RankRefused(const std::string& file) {
  return ParseRankImageFile(OwnBytes(file), "a/rank-258").status();
}

TEST(RankImageFileTest, IsReadAsItWasWritten) {
  for (const std::string& state : {std::string("abc\0d", 5), std::string()}) {
    const auto image = ParseRankImageFile(OwnBytes(File(state)), "a");
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->rank, 258u);
    EXPECT_EQ(image->clock, 1ull << 40);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(image->state.data()), image->state.size()),
              state);
  }
}

TEST(RankImageFileTest, HasItsFieldsWhereTheHeaderSays) {
  const std::string file = File("x");
  EXPECT_EQ(file.size(), kRankImageHead + 1);
  EXPECT_EQ(file.substr(0, 12), std::string("STRANK01\x02\x01\0\0", 12));
  EXPECT_EQ(file[16 + 5], '\x01');  // 2^40
  EXPECT_EQ(file[24], '\x01');
  EXPECT_EQ(file[64], 'x');
}

TEST(RankImageFileTest, WhatNoVersionWritesIsRefusedByName) {
  const std::string good = File("state");
  EXPECT_EQ(RankRefused(good.substr(0, 63)),
            absl::InvalidArgumentError("a/rank-258: is no state of a rank"));
  EXPECT_EQ(RankRefused("X" + good.substr(1)),
            absl::InvalidArgumentError("a/rank-258: is no state of a rank"));
  EXPECT_EQ(RankRefused(good.substr(0, good.size() - 1)),
            absl::InvalidArgumentError("a/rank-258: has 4 bytes of state, and says 5"));
  EXPECT_EQ(RankRefused(good + "."),
            absl::InvalidArgumentError("a/rank-258: has 6 bytes of state, and says 5"));
  for (const size_t at : {12, 15, 32, 63}) {
    std::string other = good;
    other[at] = 1;
    EXPECT_EQ(RankRefused(other),
              absl::InvalidArgumentError("a/rank-258: its head has bytes that no version writes"))
        << at;
  }
}

}  // namespace
}  // namespace strata
