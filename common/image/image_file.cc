#include "common/image/image_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/image/safetensors.h"
#include "common/require.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "format";
constexpr char kWeights[] = "weights";
constexpr char kState[] = "state";
constexpr char kCopy[] = "copy";
constexpr char kMeanSquare[] = "mean_square";
// Of the optimizer; no kind has more.
constexpr size_t kStateVectorsMax = 8;

std::string Counts(const ChunkImage& image) {
  return Json({{"clock", image.clock},
               {"version", image.weights.version},
               {"updates", image.weights.updates},
               {"samples", image.weights.samples},
               {"state", image.weights.state.size()},
               {"applied", image.applied}})
      .dump();
}

// Reads what Counts wrote. Returns why it cannot, or null.
const char* ReadCounts(const std::string& text, ChunkImage* image, size_t* states) {
  const Json counts = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!counts.is_object()) return "has counts that are not a JSON object";
  uint64_t vectors = 0;
  const std::pair<const char*, uint64_t*> fields[] = {{"clock", &image->clock},
                                                      {"version", &image->weights.version},
                                                      {"updates", &image->weights.updates},
                                                      {"samples", &image->weights.samples},
                                                      {"state", &vectors}};
  for (const auto& [name, value] : fields) {
    const auto found = counts.find(name);
    if (found == counts.end() || !found->is_number_unsigned()) return "lacks a count";
    *value = found->get<uint64_t>();
  }
  if (vectors > kStateVectorsMax) return "has too many vectors of state";
  *states = vectors;
  const auto applied = counts.find("applied");
  if (applied == counts.end() || !applied->is_array()) return "does not say what is applied";
  for (const Json& count : *applied) {
    if (!count.is_number_unsigned()) return "does not say what is applied";
    image->applied.push_back(count.get<uint64_t>());
  }
  return nullptr;
}

absl::Status Wrong(const std::string& path, const std::string& what, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what, " ", why));
}

// One file, while it is read.
class Reader {
 public:
  Reader(const Bytes& content, const std::string& path) : content_(content), path_(path) {}

  absl::StatusOr<std::vector<ChunkImage>> Read() {
    const char* const text = reinterpret_cast<const char*>(content_.data());
    absl::StatusOr<ModelView> file = ViewSafetensors({text, content_.size()}, path_);
    if (!file.ok()) return file.status();
    const auto format = file->metadata.find(kFormat);
    if (format == file->metadata.end() || format->second != kImageFormat) {
      return Wrong(path_, "format", absl::StrCat("is not ", kImageFormat));
    }
    file->metadata.erase(format);
    if (absl::Status status = Collect(*file); !status.ok()) return status;
    for (const auto& [begin, counts] : file->metadata) {
      if (absl::Status status = TakeImage(begin, counts); !status.ok()) return status;
    }
    if (!tensors_.empty()) return Wrong(path_, tensors_.begin()->first, "belongs to no image");
    std::sort(images_.begin(), images_.end(),
              [](const ChunkImage& a, const ChunkImage& b) { return a.begin < b.begin; });
    for (size_t i = 0; i + 1 < images_.size(); ++i) {
      const uint64_t elements = images_[i].weights.weights.float_count();
      if (images_[i + 1].begin - images_[i].begin < elements) {
        return Wrong(path_, absl::StrCat("image ", images_[i].begin), "overlaps the next one");
      }
    }
    return std::move(images_);
  }

 private:
  absl::Status Collect(const ModelView& file) {
    for (const TensorView& tensor : file.tensors) {
      const auto* const data = reinterpret_cast<const std::byte*>(tensor.values.data());
      const size_t bytes = tensor.values.size();
      if (reinterpret_cast<uintptr_t>(data) % sizeof(float) != 0) {
        return Wrong(path_, tensor.name, "lies at an address where no fp32 may lie");
      }
      const Bytes values = content_.Part(data - content_.data(), bytes);
      const float* const floats = values.floats();
      if (!std::all_of(floats, floats + values.float_count(),
                       [](float x) { return std::isfinite(x); })) {
        return Wrong(path_, tensor.name, "holds NaN or infinity");
      }
      if (!tensors_.emplace(tensor.name, values).second) {
        return Wrong(path_, tensor.name, "is there twice");
      }
    }
    return absl::OkStatus();
  }

  absl::Status TakeImage(const std::string& begin, const std::string& counts) {
    ChunkImage image;
    const std::string what = absl::StrCat("image ", begin);
    // Only the number's own text: "7", not "07".
    if (!absl::SimpleAtoi(begin, &image.begin) || absl::StrCat(image.begin) != begin) {
      return Wrong(path_, what, "has no number for a name");
    }
    size_t states = 0;
    if (const char* why = ReadCounts(counts, &image, &states)) return Wrong(path_, what, why);
    image.weights.weights = Take(begin, kWeights);
    if (image.weights.weights.empty()) return Wrong(path_, what, "has no weights");
    const size_t bytes = image.weights.weights.size();
    for (size_t i = 0; i < states; ++i) {
      image.weights.state.push_back(Take(begin, absl::StrCat(kState, i)));
      if (image.weights.state.back().size() != bytes) {
        return Wrong(path_, what, absl::StrCat("has no state", i, " as long as its weights"));
      }
    }
    image.copy = Take(begin, kCopy);
    image.mean_square = Take(begin, kMeanSquare);
    for (const Bytes* vector : {&image.copy, &image.mean_square}) {
      if (!vector->empty() && vector->size() != bytes) {
        return Wrong(path_, what, "has vectors of several lengths");
      }
    }
    if (image.begin + image.weights.weights.float_count() < image.begin) {
      return Wrong(path_, what, "has a range beyond all numbers");
    }
    images_.push_back(std::move(image));
    return absl::OkStatus();
  }

  // Returns a tensor, which is then none of those that are left; empty: it is not there.
  Bytes Take(const std::string& begin, const std::string& name) {
    const auto found = tensors_.find(absl::StrCat(begin, "/", name));
    if (found == tensors_.end()) return Bytes();
    Bytes values = std::move(found->second);
    tensors_.erase(found);
    return values;
  }

  const Bytes& content_;
  const std::string& path_;
  std::map<std::string, Bytes> tensors_;
  std::vector<ChunkImage> images_;
};

}  // namespace

std::vector<absl::Span<const char>> ImageFile::Pieces() const& {
  std::vector<absl::Span<const char>> pieces = {head};
  for (const Bytes& one : values) {
    pieces.emplace_back(reinterpret_cast<const char*>(one.data()), one.size());
  }
  return pieces;
}

ImageFile MakeImageFile(absl::Span<const ChunkImage> images) {
  ImageFile file;
  std::map<std::string, std::string> metadata = {{kFormat, kImageFormat}};
  std::vector<TensorToSave> tensors;
  const auto add = [&](const ChunkImage& image, const std::string& name, const Bytes& values) {
    STRATA_REQUIRE(values.size() == image.weights.weights.size());
    tensors.push_back({absl::StrCat(image.begin, "/", name),
                       {values.float_count()},
                       {values.floats(), values.float_count()}});
    file.values.push_back(values);
  };
  for (const ChunkImage& image : images) {
    STRATA_REQUIRE(!image.weights.weights.empty());
    const bool is_new = metadata.emplace(absl::StrCat(image.begin), Counts(image)).second;
    STRATA_REQUIRE(is_new);
    add(image, kWeights, image.weights.weights);
    for (size_t i = 0; i < image.weights.state.size(); ++i) {
      add(image, absl::StrCat(kState, i), image.weights.state[i]);
    }
    if (!image.copy.empty()) add(image, kCopy, image.copy);
    if (!image.mean_square.empty()) add(image, kMeanSquare, image.mean_square);
  }
  file.head = SafetensorsHead(metadata, tensors);
  return file;
}

absl::StatusOr<std::vector<ChunkImage>> ParseImageFile(const Bytes& content,
                                                       const std::string& path) {
  return Reader(content, path).Read();
}

}  // namespace strata
