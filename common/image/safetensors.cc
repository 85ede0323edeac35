#include "common/image/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file/atomic_file.h"
#include "common/require.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kFileBytesMax = size_t{16} << 30;
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little);

bool ReadUnsigned(const Json& value, uint64_t* out) {
  if (!value.is_number_unsigned()) return false;
  *out = value.get<uint64_t>();
  return true;
}

// Returns why the tensor's entry is wrong, or null.
const char* ReadPlace(const Json& value, TensorPlace* place) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets") || !value["shape"].is_array() ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2) {
    return "has no dtype, shape and data_offsets";
  }
  if (value["dtype"] != "F32") return "is not of dtype F32";
  uint64_t bytes = sizeof(float);
  for (const Json& item : value["shape"]) {
    uint64_t size = 0;
    if (!ReadUnsigned(item, &size)) return "has an impossible shape";
    if (size != 0 && bytes > kFileBytesMax / size) return "is too large";
    bytes *= size;
    place->shape.push_back(size);
  }
  if (!ReadUnsigned(value["data_offsets"][0], &place->begin) ||
      !ReadUnsigned(value["data_offsets"][1], &place->end) || place->end < place->begin ||
      place->end - place->begin != bytes) {
    return "has data_offsets that do not fit its shape";
  }
  return nullptr;
}

absl::Status Invalid(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a safetensors file: ", why));
}

// Puts the places in the order of their values and checks that those cover [0, bytes).
absl::Status OrderPlaces(const std::string& path, uint64_t bytes,
                         std::vector<TensorPlace>* places) {
  std::stable_sort(places->begin(), places->end(),
                   [](const TensorPlace& a, const TensorPlace& b) { return a.begin < b.begin; });
  uint64_t position = 0;
  for (const TensorPlace& place : *places) {
    if (place.begin != position || place.end > bytes) {
      return Invalid(path, absl::StrCat("the values of ", place.name,
                                        " leave a gap, overlap others or are cut off"));
    }
    position = place.end;
  }
  if (position != bytes) return Invalid(path, "bytes after the last tensor");
  return absl::OkStatus();
}

}  // namespace

std::string SafetensorsHead(const std::map<std::string, std::string>& metadata,
                            absl::Span<const TensorToSave> tensors, size_t alignment) {
  STRATA_REQUIRE(alignment > 0 && alignment % 8 == 0);
  Json header;
  header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const TensorToSave& tensor : tensors) {
    const uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  // Names may hold any bytes; those that are not UTF-8 are replaced rather than thrown about.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  uint64_t length = 0;
  const size_t size = (sizeof length + text.size() + alignment - 1) / alignment * alignment;
  text.resize(size - sizeof length, ' ');  // so that the values are aligned
  length = text.size();
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  return head + text;
}

absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, std::string>& metadata,
                              absl::Span<const TensorToSave> tensors) {
  const std::string head = SafetensorsHead(metadata, tensors);
  std::vector<absl::Span<const char>> pieces = {head};
  for (const TensorToSave& tensor : tensors) {
    pieces.emplace_back(reinterpret_cast<const char*>(tensor.values.data()),
                        tensor.values.size() * sizeof(float));
  }
  return WriteFileAtomically(path, pieces);
}

absl::StatusOr<SavedModel> ReadSafetensors(const std::string& path) {
  auto content = ReadFile(path, kFileBytesMax);
  if (!content.ok()) return content.status();
  return ParseSafetensors(*content, path);
}

absl::StatusOr<SavedModel> ParseSafetensors(absl::Span<const char> content,
                                            const std::string& path) {
  absl::StatusOr<ModelView> view = ViewSafetensors(content, path);
  if (!view.ok()) return view.status();
  SavedModel model = {.metadata = std::move(view->metadata)};
  for (TensorView& tensor : view->tensors) {
    std::vector<float> values(tensor.values.size() / sizeof(float));
    // memcpy takes no null pointer, not even for the no bytes of an empty tensor.
    if (!values.empty()) std::memcpy(values.data(), tensor.values.data(), tensor.values.size());
    model.tensors.push_back({std::move(tensor.name), std::move(tensor.shape), std::move(values)});
  }
  return model;
}

absl::StatusOr<uint64_t> SafetensorsHeadBytes(absl::Span<const char> beginning, uint64_t file_bytes,
                                              const std::string& path) {
  uint64_t length = 0;
  static_assert(sizeof length == kSafetensorsLengthBytes);
  if (beginning.size() < sizeof length) return Invalid(path, "no header");
  std::memcpy(&length, beginning.data(), sizeof length);
  if (length > kHeaderBytesMax || length > file_bytes - sizeof length) {
    return Invalid(path, "the header is cut off");
  }
  return sizeof length + length;
}

absl::StatusOr<SafetensorsLayout> ReadSafetensorsHead(absl::Span<const char> head,
                                                      uint64_t file_bytes,
                                                      const std::string& path) {
  STRATA_REQUIRE(head.size() >= kSafetensorsLengthBytes && head.size() <= file_bytes);
  const Json header = Json::parse(head.data() + kSafetensorsLengthBytes, head.data() + head.size(),
                                  nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Invalid(path, "the header is not a JSON object");
  SafetensorsLayout layout;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      if (!value.is_object()) return Invalid(path, "the metadata is not an object");
      for (const auto& [key, word] : value.items()) {
        if (!word.is_string()) return Invalid(path, "the metadata is not of strings");
        layout.metadata[key] = word.get<std::string>();
      }
      continue;
    }
    TensorPlace place = {.name = name};
    if (const char* why = ReadPlace(value, &place)) {
      return Invalid(path, absl::StrCat("tensor ", name, " ", why));
    }
    layout.tensors.push_back(std::move(place));
  }
  absl::Status ordered = OrderPlaces(path, file_bytes - head.size(), &layout.tensors);
  return ordered.ok() ? absl::StatusOr<SafetensorsLayout>(std::move(layout)) : ordered;
}

absl::StatusOr<ModelView> ViewSafetensors(absl::Span<const char> content, const std::string& path) {
  const absl::StatusOr<uint64_t> head = SafetensorsHeadBytes(content, content.size(), path);
  if (!head.ok()) return head.status();
  absl::StatusOr<SafetensorsLayout> layout =
      ReadSafetensorsHead(content.subspan(0, *head), content.size(), path);
  if (!layout.ok()) return layout.status();
  ModelView model = {.metadata = std::move(layout->metadata)};
  const absl::Span<const char> values = content.subspan(*head);
  for (TensorPlace& place : layout->tensors) {
    model.tensors.push_back({std::move(place.name), std::move(place.shape),
                             values.subspan(place.begin, place.end - place.begin)});
  }
  return model;
}

}  // namespace strata
