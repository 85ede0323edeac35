#include "common/image/image_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/image/image_counts.h"
#include "common/require.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr char kWeights[] = "weights";
constexpr char kState[] = "state";
constexpr char kCopy[] = "copy";
constexpr char kMeanSquare[] = "mean_square";

std::string Counts(const ChunkImage& image) {
  Json counts = CountsOf(image.weights);
  counts["clock"] = image.clock;
  counts["applied"] = image.applied;
  return counts.dump();
}

// Reads what Counts wrote. Returns why it cannot, or null.
const char* ReadAllCounts(const std::string& text, ChunkImage* image, uint64_t* states) {
  const Json counts = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!counts.is_object()) return "has counts that are not a JSON object";
  if (!ReadCount(counts, "clock", &image->clock) || !ReadCounts(counts, &image->weights, states)) {
    return "lacks a count";
  }
  if (*states > kImageVectorsMax) return "has too many vectors of state";
  const auto applied = counts.find("applied");
  if (applied == counts.end() || !applied->is_array()) return "does not say what is applied";
  for (const Json& count : *applied) {
    if (!count.is_number_unsigned()) return "does not say what is applied";
    image->applied.push_back(count.get<uint64_t>());
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<ChunkImage> TakeImage(ImageReader* file, const std::string& begin,
                                     const std::string& counts) {
  ChunkImage image;
  const std::string what = absl::StrCat("image ", begin);
  if (!ReadBegin(begin, &image.begin)) {
    return file->Wrong(what, "has no number for a name");
  }
  uint64_t states = 0;
  if (const char* why = ReadAllCounts(counts, &image, &states)) return file->Wrong(what, why);
  const auto take = [&](const std::string& name) {
    return file->TakeFloats(absl::StrCat(begin, "/", name));
  };
  image.weights.weights = take(kWeights);
  if (image.weights.weights.empty()) return file->Wrong(what, "has no weights");
  const size_t bytes = image.weights.weights.size();
  for (size_t i = 0; i < states; ++i) {
    image.weights.state.push_back(take(absl::StrCat(kState, i)));
    if (image.weights.state.back().size() != bytes) {
      return file->Wrong(what, absl::StrCat("has no state", i, " as long as its weights"));
    }
  }
  image.copy = take(kCopy);
  image.mean_square = take(kMeanSquare);
  for (const Bytes* vector : {&image.copy, &image.mean_square}) {
    if (!vector->empty() && vector->size() != bytes) {
      return file->Wrong(what, "has vectors of several lengths");
    }
  }
  if (image.begin + image.weights.weights.float_count() < image.begin) {
    return file->Wrong(what, "has a range beyond all numbers");
  }
  return image;
}

absl::Status OverlapError(uint64_t begin, const std::string& path) {
  return ImageReader(path).Wrong(absl::StrCat("image ", begin), "overlaps the next one");
}

ImageFile MakeImageFile(absl::Span<const ChunkImage> images) {
  ImageWriter file(kImageFormat);
  for (const ChunkImage& image : images) {
    STRATA_REQUIRE(!image.weights.weights.empty());
    file.AddText(absl::StrCat(image.begin), Counts(image));
    const auto add = [&](const std::string& name, const Bytes& values) {
      STRATA_REQUIRE(values.size() == image.weights.weights.size());
      file.AddFloats(absl::StrCat(image.begin, "/", name), values);
    };
    add(kWeights, image.weights.weights);
    for (size_t i = 0; i < image.weights.state.size(); ++i) {
      add(absl::StrCat(kState, i), image.weights.state[i]);
    }
    if (!image.copy.empty()) add(kCopy, image.copy);
    if (!image.mean_square.empty()) add(kMeanSquare, image.mean_square);
  }
  return file.Finish();
}

absl::StatusOr<std::vector<ChunkImage>> ParseImageFile(const Bytes& content,
                                                       const std::string& path) {
  ImageReader file(path);
  if (absl::Status status = file.Open(content, kImageFormat); !status.ok()) return status;
  std::vector<ChunkImage> images;
  for (const auto& [begin, counts] : file.texts()) {
    absl::StatusOr<ChunkImage> image = TakeImage(&file, begin, counts);
    if (!image.ok()) return image.status();
    images.push_back(*std::move(image));
  }
  if (absl::Status status = file.ExpectAllTaken(); !status.ok()) return status;
  std::sort(images.begin(), images.end(),
            [](const ChunkImage& a, const ChunkImage& b) { return a.begin < b.begin; });
  for (size_t i = 0; i + 1 < images.size(); ++i) {
    if (images[i + 1].begin - images[i].begin < images[i].weights.weights.float_count()) {
      return OverlapError(images[i].begin, path);
    }
  }
  return images;
}

}  // namespace strata
