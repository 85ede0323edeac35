#include "common/image/image_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/image/image_bytes.h"
#include "common/image/image_file.h"

namespace strata {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Reads a file that comes in pieces of so many bytes.
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

// A file whose tensors and texts MakeImageFile would not write so.
std::string FileOf(const std::map<std::string, std::string>& metadata,
                   const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
  std::vector<TensorToSave> to_save;
  for (const auto& [name, values] : tensors) to_save.push_back({name, {values.size()}, values});
  ImageFile file = {.head = SafetensorsHead(metadata, to_save)};
  for (const auto& [name, values] : tensors) file.values.push_back(FloatBytes(values));
  return Joined(file);
}

constexpr char kCounts[] =
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

// Images whose tensors lie between those of others.
TEST(ImageStream, TensorsMayComeInAnyOrder) {
  const std::pair<const std::string, std::string> format = {"format", kImageFormat};
  const std::string file = FileOf(
      {format, {"0", kCounts}, {"2", kCounts}},
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

// What one reader takes the other takes, too, with each byte changed in turn.
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

// Whoever reads it as a whole could not use its values where they are.
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
  expect(FileOf({format, {"0", kCounts}}, {}), "image 0 has no weights");
  expect(FileOf({format, {"0", kCounts}}, {{"0/copy", {1}}}), "image 0 has no weights");
  expect(FileOf({format, {"0", kCounts}}, {{"1/weights", {1}}}), "1/weights belongs to no image");
  expect(FileOf({format, {"0", kCounts}}, {{"0/weights", {1}}, {"0/state0", {1}}}),
         "0/state0 belongs to no image");
  expect(FileOf({format, {"0", kCounts}}, {{"0/weights", {1, 1.0f / 0.0f}}}),
         "0/weights holds NaN or infinity");
  expect(FileOf({format, {"0", kCounts}, {"1", kCounts}},
                {{"0/weights", {1, 2}}, {"1/weights", {1, 2}}}),
         "image 0 overlaps the next one");
  expect(FileOf({format, {"0", kCounts}}, {{"0/weights", {}}}), "image 0 has no weights");
}

}  // namespace
}  // namespace strata
