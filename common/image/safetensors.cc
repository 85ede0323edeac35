#include "common/image/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/require.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kFileBytesMax = size_t{16} << 30;
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little);

// Where the values of one tensor lie, counted from the end of the header.
struct Entry {
  TensorView tensor;
  uint64_t begin = 0, end = 0;
};

bool ReadUnsigned(const Json& value, uint64_t* out) {
  if (!value.is_number_unsigned()) return false;
  *out = value.get<uint64_t>();
  return true;
}

// Returns why the entry is wrong, or null.
const char* ReadEntry(const Json& value, Entry* entry) {
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
    entry->tensor.shape.push_back(size);
  }
  if (!ReadUnsigned(value["data_offsets"][0], &entry->begin) ||
      !ReadUnsigned(value["data_offsets"][1], &entry->end) || entry->end < entry->begin ||
      entry->end - entry->begin != bytes) {
    return "has data_offsets that do not fit its shape";
  }
  return nullptr;
}

absl::Status Invalid(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a safetensors file: ", why));
}

// Checks that the entries, in the order of their offsets, cover [0, bytes) and takes their values.
absl::Status TakeValues(const std::string& path, absl::Span<const char> values,
                        std::vector<Entry> entries, ModelView* model) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  uint64_t position = 0;
  for (Entry& entry : entries) {
    if (entry.begin != position || entry.end > values.size()) {
      return Invalid(path, absl::StrCat("the values of ", entry.tensor.name,
                                        " leave a gap, overlap others or are cut off"));
    }
    entry.tensor.values = values.subspan(position, entry.end - entry.begin);
    position = entry.end;
    model->tensors.push_back(std::move(entry.tensor));
  }
  if (position != values.size()) return Invalid(path, "bytes after the last tensor");
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

absl::StatusOr<ModelView> ViewSafetensors(absl::Span<const char> content, const std::string& path) {
  uint64_t length = 0;
  if (content.size() < sizeof length) return Invalid(path, "no header");
  std::memcpy(&length, content.data(), sizeof length);
  if (length > kHeaderBytesMax || length > content.size() - sizeof length) {
    return Invalid(path, "the header is cut off");
  }
  const char* text = content.data() + sizeof length;
  const Json header = Json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Invalid(path, "the header is not a JSON object");
  ModelView model;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      if (!value.is_object()) return Invalid(path, "the metadata is not an object");
      for (const auto& [key, word] : value.items()) {
        if (!word.is_string()) return Invalid(path, "the metadata is not of strings");
        model.metadata[key] = word.get<std::string>();
      }
      continue;
    }
    Entry entry;
    entry.tensor.name = name;
    if (const char* why = ReadEntry(value, &entry)) {
      return Invalid(path, absl::StrCat("tensor ", name, " ", why));
    }
    entries.push_back(std::move(entry));
  }
  const absl::Span<const char> values(text + length, content.size() - sizeof length - length);
  if (auto status = TakeValues(path, values, std::move(entries), &model); !status.ok()) {
    return status;
  }
  return model;
}

}  // namespace strata
