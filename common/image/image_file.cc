#include "common/image/image_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/buffer_pool.h"
#include "common/image/chunk_image.h"
#include "common/image/safetensors.h"
#include "common/require.h"

namespace strata {
namespace {

// The counts of images, as files have them in their metadata.

// The maximum number of state vectors of an optimizer or encoder.
constexpr uint64_t kImageVectorsMax = 8;

nlohmann::json CountsOf(const WeightImage& image) {
  return {{"version", image.version},
          {"updates", image.updates},
          {"samples", image.samples},
          {"state", image.state.size()}};
}

// Parses untrusted counts. The result is not an object if they are malformed, or too many.
nlohmann::json ParseCounts(const std::string& text) {
  if (!IsWithinJsonBounds(text)) return nlohmann::json();
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// Reads a field of a JSON object. Returns false if it is missing, or not a number from 0 on.
bool ReadCount(const nlohmann::json& object, const char* name, uint64_t* out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  *out = found->get<uint64_t>();
  return true;
}

// Reads what CountsOf wrote, and the number of state vectors. Returns false if a count is missing.
bool ReadCounts(const nlohmann::json& counts, WeightImage* image, uint64_t* states) {
  return ReadCount(counts, "version", &image->version) &&
         ReadCount(counts, "updates", &image->updates) &&
         ReadCount(counts, "samples", &image->samples) && ReadCount(counts, "state", states);
}

// Reads the first element of a range from its name. Only the number's own text: "7", not "07".
bool ReadBegin(const std::string& name, uint64_t* begin) {
  return absl::SimpleAtoi(name, begin) && absl::StrCat(*begin) == name;
}

using Json = nlohmann::json;

constexpr char kWeights[] = "weights";
constexpr char kState[] = "state";
constexpr char kCopy[] = "copy";
constexpr char kMeanSquare[] = "mean_square";
constexpr char kMissed[] = "missed";

std::string Counts(const ChunkImage& image) {
  Json counts = CountsOf(image.weights);
  counts["clock"] = image.clock;
  counts["applied"] = image.applied;
  return counts.dump();
}

// Reads what Counts wrote. Returns the problem, or null.
const char* ReadAllCounts(const std::string& text, ChunkImage* image, uint64_t* states) {
  const Json counts = ParseCounts(text);
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
  image.weights.missed = take(kMissed);
  for (const Bytes* vector : {&image.copy, &image.mean_square, &image.weights.missed}) {
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
    if (!image.weights.missed.empty()) add(kMissed, image.weights.missed);
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

absl::Status ImageStream::Take(absl::Span<const char> bytes, std::vector<ChunkImage>* images) {
  STRATA_REQUIRE(bytes.size() <= bytes_ - taken_);
  taken_ += bytes.size();
  absl::Status status;
  while (status.ok() && !has_layout_ && !bytes.empty()) status = TakeHead(&bytes);
  while (status.ok() && has_layout_ && next_ < tensors_.size()) {
    const TensorPlace& tensor = tensors_[next_];
    if (bytes.empty() && filled_ < tensor.end - tensor.begin) break;
    status = TakeValues(&bytes, images);
  }
  return status;
}

absl::Status ImageStream::TakeHead(absl::Span<const char>* bytes) {
  const uint64_t wanted = head_bytes_ > 0 ? head_bytes_ : kSafetensorsLengthBytes;
  const size_t size = std::min<uint64_t>(bytes->size(), wanted - head_.size());
  head_.append(bytes->data(), size);
  bytes->remove_prefix(size);
  if (head_.size() < wanted) return absl::OkStatus();
  if (head_bytes_ == 0) {
    const absl::StatusOr<uint64_t> head = SafetensorsHeadBytes(head_, bytes_, path_);
    if (!head.ok()) return head.status();
    head_bytes_ = *head;
  }
  return head_.size() < head_bytes_ ? absl::OkStatus() : ReadHead();
}

absl::Status ImageStream::ReadHead() {
  absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHead(head_, bytes_, path_);
  if (!layout.ok()) return layout.status();
  head_ = std::string();
  has_layout_ = true;
  tensors_ = std::move(layout->tensors);
  ImageReader file(path_);
  absl::Status status = file.SetTexts(std::move(layout->metadata), kImageFormat);
  if (!status.ok()) return status;
  // As a whole file it would be unusable.
  if (head_bytes_ % sizeof(float) != 0 && !tensors_.empty()) {
    return file.Misplaced(tensors_[0].name);
  }
  for (const auto& [name, counts] : file.texts()) images_[name].counts = counts;
  for (const TensorPlace& tensor : tensors_) {
    const auto image = images_.find(tensor.name.substr(0, tensor.name.find('/')));
    if (image == images_.end()) return file.Wrong(tensor.name, "belongs to no image");
    ++image->second.tensors;
  }
  for (const auto& [name, image] : images_) {
    if (image.tensors == 0) return TakeImage(&file, name, image.counts).status();
  }
  return absl::OkStatus();
}

absl::Status ImageStream::TakeValues(absl::Span<const char>* bytes,
                                     std::vector<ChunkImage>* images) {
  const TensorPlace& tensor = tensors_[next_];
  const uint64_t size = tensor.end - tensor.begin;
  if (values_ == nullptr) values_ = AlignedMemory(size);
  if (values_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": no memory for ", size, " bytes of ", tensor.name));
  }
  const size_t part = std::min<uint64_t>(bytes->size(), size - filled_);
  if (part > 0) std::memcpy(values_.get() + filled_, bytes->data(), part);
  bytes->remove_prefix(part);
  filled_ += part;
  return filled_ < size ? absl::OkStatus() : Complete(tensor, images);
}

absl::Status ImageStream::Complete(const TensorPlace& tensor, std::vector<ChunkImage>* images) {
  ++next_;
  const auto it = images_.find(tensor.name.substr(0, tensor.name.find('/')));
  STRATA_REQUIRE(it != images_.end());
  Image& image = it->second;
  image.floats.emplace_back(tensor.name, Bytes(values_, values_.get(), std::exchange(filled_, 0)));
  values_.reset();
  if (image.floats.size() < image.tensors) return absl::OkStatus();
  ImageReader file(path_);
  for (const auto& [name, floats] : image.floats) {
    if (absl::Status status = file.AddFloats(name, floats); !status.ok()) return status;
  }
  absl::StatusOr<ChunkImage> made = TakeImage(&file, it->first, image.counts);
  if (!made.ok()) return made.status();
  if (absl::Status status = file.ExpectAllTaken(); !status.ok()) return status;
  image.floats.clear();
  ranges_.emplace_back(made->begin, made->weights.weights.float_count());
  images->push_back(*std::move(made));
  return absl::OkStatus();
}

absl::Status ImageStream::Finish() {
  STRATA_REQUIRE(taken_ == bytes_);
  // The file ends within its head.
  if (!has_layout_) return SafetensorsHeadBytes(head_, bytes_, path_).status();
  std::sort(ranges_.begin(), ranges_.end());
  for (size_t i = 0; i + 1 < ranges_.size(); ++i) {
    const auto& [begin, elements] = ranges_[i];
    if (ranges_[i + 1].first - begin < elements) return OverlapError(begin, path_);
  }
  return absl::OkStatus();
}

namespace {

constexpr char kNode[] = "node";

// Extracts the ranges of one file.
class RangeReader {
 public:
  RangeReader(ImageReader* file, const std::string& begin) : file_(file), begin_(begin) {}

  absl::StatusOr<NodeChunkImage> Read(const std::string& text) {
    NodeChunkImage range;
    const Json counts = ParseCounts(text);
    if (!ReadBegin(begin_, &range.begin)) {
      return Wrong("has no number for a name");
    }
    uint64_t elements = 0;
    if (!counts.is_object() || !ReadCount(counts, "elements", &elements) || elements == 0 ||
        elements > UINT32_MAX || range.begin + elements < range.begin) {
      return Wrong("does not say how many elements it has");
    }
    range.elements = static_cast<uint32_t>(elements);
    bytes_ = elements * sizeof(float);
    for (const auto& read : {&RangeReader::ReadPush, &RangeReader::ReadLocal,
                             &RangeReader::ReadNorms, &RangeReader::ReadArena}) {
      if (absl::Status status = (this->*read)(counts, &range); !status.ok()) return status;
    }
    return range;
  }

 private:
  absl::Status Wrong(const std::string& why) const {
    return file_->Wrong(absl::StrCat("image ", begin_), why);
  }

  // Takes a vector of the range's length.
  absl::Status Take(const std::string& name, Bytes* values) {
    *values = file_->TakeFloats(absl::StrCat(begin_, "/", name));
    if (values->size() == bytes_) return absl::OkStatus();
    return Wrong(absl::StrCat("has no ", name, " as long as it says"));
  }

  absl::Status TakeWeights(const std::string& room, const Json& counts, WeightImage* image) {
    uint64_t states = 0;
    if (!counts.is_object() || !ReadCounts(counts, image, &states) || states > kImageVectorsMax) {
      return Wrong(absl::StrCat("lacks a count of ", room));
    }
    if (absl::Status status = Take(absl::StrCat(room, "/weights"), &image->weights); !status.ok()) {
      return status;
    }
    image->state.resize(states);
    for (uint64_t i = 0; i < states; ++i) {
      absl::Status status = Take(absl::StrCat(room, "/state", i), &image->state[i]);
      if (!status.ok()) return status;
    }
    image->missed = file_->TakeFloats(absl::StrCat(begin_, "/", room, "/missed"));
    if (image->missed.empty() || image->missed.size() == bytes_) return absl::OkStatus();
    return Wrong(absl::StrCat("has no ", room, "/missed as long as it says"));
  }

  absl::Status ReadPush(const Json& counts, NodeChunkImage* range) {
    const auto found = counts.find("push");
    if (found == counts.end()) return absl::OkStatus();
    PushImage& push = range->push.emplace();
    uint64_t vectors = 0;
    if (!found->is_object() || !ReadCount(*found, "samples", &push.samples) ||
        !ReadCount(*found, "unsent", &vectors) || vectors > kImageVectorsMax) {
      return Wrong("lacks a count of push");
    }
    push.unsent.resize(vectors);
    for (uint64_t i = 0; i < vectors; ++i) {
      absl::Status status = Take(absl::StrCat("unsent", i), &push.unsent[i]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status ReadLocal(const Json& counts, NodeChunkImage* range) {
    const auto found = counts.find("local");
    if (found == counts.end()) return absl::OkStatus();
    LocalStepsImage& local = range->local.emplace();
    uint64_t samples = 0;
    if (!found->is_object() || !ReadCount(*found, "clock", &local.clock) ||
        !ReadCount(*found, "last_samples", &samples) || samples > UINT32_MAX) {
      return Wrong("lacks a count of local");
    }
    local.last_samples = static_cast<uint32_t>(samples);
    if (absl::Status status = TakeWeights("local", *found, &local.own); !status.ok()) return status;
    return Take("local/start", &local.start);
  }

  absl::Status ReadNorms(const Json& counts, NodeChunkImage* range) {
    const auto found = counts.find("norms");
    if (found == counts.end()) return absl::OkStatus();
    return TakeWeights("norms", *found, &range->norms.emplace());
  }

  absl::Status ReadArena(const Json&, NodeChunkImage* range) {
    range->arena = file_->TakeFloats(absl::StrCat(begin_, "/arena"));
    if (range->arena.empty() || range->arena.size() == bytes_) return absl::OkStatus();
    return Wrong("has no arena as long as it says");
  }

  ImageReader* const file_;
  const std::string& begin_;
  size_t bytes_ = 0;
};

}  // namespace

ImageFile MakeNodeImageFile(const NodeImage& image) {
  ImageWriter file(kNodeImageFormat);
  file.AddText(kNode, Json({{"node", image.node}, {"clock", image.clock}}).dump());
  for (const NodeChunkImage& range : image.chunks) {
    Json counts = {{"elements", range.elements}};
    const auto add = [&](const std::string& name, const Bytes& values) {
      STRATA_REQUIRE(values.float_count() == range.elements);
      file.AddFloats(absl::StrCat(range.begin, "/", name), values);
    };
    const auto add_weights = [&](const std::string& room, const WeightImage& weights) {
      add(absl::StrCat(room, "/weights"), weights.weights);
      for (size_t i = 0; i < weights.state.size(); ++i) {
        add(absl::StrCat(room, "/state", i), weights.state[i]);
      }
      if (!weights.missed.empty()) add(absl::StrCat(room, "/missed"), weights.missed);
    };
    if (range.push) {
      counts["push"] = {{"samples", range.push->samples}, {"unsent", range.push->unsent.size()}};
      for (size_t i = 0; i < range.push->unsent.size(); ++i) {
        add(absl::StrCat("unsent", i), range.push->unsent[i]);
      }
    }
    if (range.local) {
      counts["local"] = CountsOf(range.local->own);
      counts["local"]["clock"] = range.local->clock;
      counts["local"]["last_samples"] = range.local->last_samples;
      add_weights("local", range.local->own);
      add("local/start", range.local->start);
    }
    if (range.norms) {
      counts["norms"] = CountsOf(*range.norms);
      add_weights("norms", *range.norms);
    }
    if (!range.arena.empty()) add("arena", range.arena);
    file.AddText(absl::StrCat(range.begin), counts.dump());
  }
  return file.Finish();
}

absl::StatusOr<NodeImage> ParseNodeImageFile(const Bytes& content, const std::string& path) {
  ImageReader file(path);
  if (absl::Status status = file.Open(content, kNodeImageFormat); !status.ok()) return status;
  NodeImage image;
  bool has_node = false;
  for (const auto& [name, text] : file.texts()) {
    if (name == kNode) {
      const Json counts = ParseCounts(text);
      uint64_t node = 0;
      has_node = counts.is_object() && ReadCount(counts, "node", &node) && node <= UINT32_MAX &&
                 ReadCount(counts, "clock", &image.clock);
      image.node = static_cast<uint32_t>(node);
      continue;
    }
    absl::StatusOr<NodeChunkImage> range = RangeReader(&file, name).Read(text);
    if (!range.ok()) return range.status();
    image.chunks.push_back(*std::move(range));
  }
  if (!has_node) return file.Wrong("node", "is not said, or not its clock");
  if (absl::Status status = file.ExpectAllTaken(); !status.ok()) return status;
  std::sort(image.chunks.begin(), image.chunks.end(),
            [](const NodeChunkImage& a, const NodeChunkImage& b) { return a.begin < b.begin; });
  for (size_t i = 0; i + 1 < image.chunks.size(); ++i) {
    if (image.chunks[i + 1].begin - image.chunks[i].begin < image.chunks[i].elements) {
      return file.Wrong(absl::StrCat("image ", image.chunks[i].begin), "overlaps the next one");
    }
  }
  return image;
}

namespace {

// Offsets of the fields.
constexpr size_t kMagicBytes = 8, kRankAt = 8, kClockAt = 16, kLengthAt = 24, kZerosAt = 32;

template <typename Number>
void Put(Number value, size_t at, std::string* head) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    (*head)[at + i] = static_cast<char>(value >> (8 * i));
  }
}

uint64_t Get(const Bytes& content, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<uint64_t>(content.data()[at + i]) << (8 * i);
  }
  return value;
}

}  // namespace

ImageFile MakeRankImageFile(const RankImage& image) {
  ImageFile file;
  file.head.assign(kRankImageHead, '\0');
  std::memcpy(file.head.data(), kRankImageMagic, kMagicBytes);
  Put<uint64_t>(image.rank, kRankAt, &file.head);
  Put<uint64_t>(image.clock, kClockAt, &file.head);
  Put<uint64_t>(image.state.size(), kLengthAt, &file.head);
  if (!image.state.empty()) file.values.push_back(image.state);
  return file;
}

absl::StatusOr<RankImage> ParseRankImageFile(const Bytes& content, const std::string& path) {
  const auto wrong = [&path](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  if (content.size() < kRankImageHead ||
      std::memcmp(content.data(), kRankImageMagic, kMagicBytes) != 0) {
    return wrong("is no state of a rank");
  }
  const uint64_t rank = Get(content, kRankAt, 8), length = Get(content, kLengthAt, 8);
  const bool has_zeros = std::all_of(content.data() + kZerosAt, content.data() + kRankImageHead,
                                     [](std::byte byte) { return byte == std::byte{0}; });
  if (rank > UINT32_MAX || !has_zeros) return wrong("its head has bytes that no version writes");
  if (length != content.size() - kRankImageHead) {
    return wrong(absl::StrFormat("has %d bytes of state, and says %d",
                                 content.size() - kRankImageHead, length));
  }
  return RankImage{.rank = static_cast<uint32_t>(rank),
                   .clock = Get(content, kClockAt, 8),
                   .state = content.Part(kRankImageHead, length)};
}

}  // namespace strata
