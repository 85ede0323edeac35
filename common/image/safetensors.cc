#include "common/image/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/os/atomic_file.h"
#include "common/require.h"

namespace strata {
namespace {

using SafetensorsJson = nlohmann::ordered_json;

constexpr char kMetadata[] = "__metadata__";
constexpr size_t kFileBytesMax = size_t{16} << 30;
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little);

absl::Status Invalid(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a safetensors file: ", why));
}

// Which types of tensors are read.
enum class Types { kFp32, kAny };

// Returns the bytes of an element; 0: the type is unknown.
uint64_t ElementBytes(absl::string_view dtype) {
  constexpr std::pair<absl::string_view, uint64_t> kKnown[] = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"I16", 2},
      {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1}};
  for (const auto& [name, bytes] : kKnown) {
    if (name == dtype) return bytes;
  }
  return 0;
}

// Parses a head with a SAX parser, so that no more than the layout is in memory, and nothing after
// the first fault, which ends the parse.
class HeadReader final : public nlohmann::json_sax<SafetensorsJson> {
 public:
  HeadReader(Types types, SafetensorsLayout* layout) : types_(types), layout_(*layout) {}

  // Empty: there is none.
  const std::string& fault() const { return fault_; }

  bool null() override { return OtherValue(); }
  bool boolean(bool) override { return OtherValue(); }
  bool number_integer(number_integer_t) override { return OtherValue(); }
  bool number_float(number_float_t, const string_t&) override { return OtherValue(); }
  bool binary(binary_t&) override { return OtherValue(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (in_.back() != In::kShape && in_.back() != In::kOffsets) return OtherValue();
    std::vector<uint64_t>& numbers = in_.back() == In::kShape ? place_.shape : offsets_;
    if (numbers.size() == kDimensionsMax) return OtherValue();
    numbers.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (in_.back() == In::kMetadata) {
      return layout_.metadata.emplace(key_, std::move(value)).second ||
             Fail(absl::StrCat(ShownName(key_), " is there twice in the metadata"));
    }
    if (in_.back() != In::kTensor || key_ != kDtype) return OtherValue();
    if (types_ == Types::kFp32 && value != "F32") return FailTensor("is not of dtype F32");
    place_.dtype = value;
    element_bytes_ = ElementBytes(value);
    return element_bytes_ > 0 || FailTensor("has an unknown dtype");
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    const bool is_field = key_ == kDtype || key_ == kShape || key_ == kOffsets;
    if (in_.back() != In::kTensor || !is_field) return true;
    return fields_.insert(key_).second || FailTensor(absl::StrCat("has ", key_, " twice"));
  }

  bool start_object(size_t) override {
    switch (in_.back()) {
      case In::kNothing:
        return Enter(In::kHead);
      case In::kHead:
        if (key_ != kMetadata) return BeginTensor();
        if (std::exchange(has_metadata_, true)) return Fail("the metadata is there twice");
        return Enter(In::kMetadata);
      default:
        return EnterOther();
    }
  }

  bool start_array(size_t) override {
    const bool is_in_tensor = in_.back() == In::kTensor;
    if (is_in_tensor && key_ == kShape) return Enter(In::kShape);
    if (is_in_tensor && key_ == kOffsets) return Enter(In::kOffsets);
    return EnterOther();
  }

  bool end_object() override {
    const bool is_tensor = in_.back() == In::kTensor;
    in_.pop_back();
    return !is_tensor || CompleteTensor();
  }
  bool end_array() override {
    has_shape_ = has_shape_ || in_.back() == In::kShape;
    in_.pop_back();
    return true;
  }

  bool parse_error(size_t, const std::string&, const SafetensorsJson::exception&) override {
    return Fail("the header is not a JSON object");
  }

 private:
  // Position of a value.
  enum class In { kNothing, kHead, kMetadata, kTensor, kShape, kOffsets, kOther };

  static constexpr size_t kDepthMax = 16, kDimensionsMax = 64;
  static constexpr char kDtype[] = "dtype", kShape[] = "shape", kOffsets[] = "data_offsets";

  bool Fail(absl::string_view why) {
    fault_ = std::string(why);
    return false;
  }
  bool FailTensor(absl::string_view why) {
    return Fail(absl::StrCat("tensor ", ShownName(place_.name), " ", why));
  }

  bool Enter(In what) {
    if (in_.size() > kDepthMax) return Fail("the header is nested too deep");
    in_.push_back(what);
    return true;
  }
  bool EnterOther() { return OtherValue() && Enter(In::kOther); }

  // Any other value: unknown, or an error.
  bool OtherValue() {
    constexpr char kLacks[] = "has no dtype, shape and data_offsets";
    switch (in_.back()) {
      case In::kNothing:
        return Fail("the header is not a JSON object");
      case In::kHead:
        if (key_ == kMetadata) return Fail("the metadata is not an object");
        place_.name = key_;
        return FailTensor(kLacks);
      case In::kMetadata:
        return Fail("the metadata is not of strings");
      case In::kTensor:
        return !fields_.contains(key_) || FailTensor(kLacks);
      case In::kShape:
        return FailTensor("has an impossible shape");
      case In::kOffsets:
        return FailTensor(kNoFit);
      case In::kOther:
        return true;
    }
    return true;
  }

  bool BeginTensor() {
    place_ = {.name = key_};
    offsets_.clear();
    fields_.clear();
    element_bytes_ = 0;
    has_shape_ = false;
    return Enter(In::kTensor);
  }

  bool CompleteTensor() {
    if (element_bytes_ == 0 || !has_shape_ || offsets_.size() != 2) {
      return FailTensor("has no dtype, shape and data_offsets");
    }
    uint64_t bytes = element_bytes_;
    for (const uint64_t size : place_.shape) {
      if (size != 0 && bytes > kFileBytesMax / size) return FailTensor("is too large");
      bytes *= size;
    }
    place_.begin = offsets_[0];
    place_.end = offsets_[1];
    if (place_.end < place_.begin || place_.end - place_.begin != bytes) return FailTensor(kNoFit);
    layout_.tensors.push_back(std::move(place_));
    return true;
  }

  static constexpr char kNoFit[] = "has data_offsets that do not fit its shape";

  const Types types_;
  SafetensorsLayout& layout_;
  std::string fault_;
  std::vector<In> in_ = {In::kNothing};
  std::string key_;
  bool has_metadata_ = false;
  // The tensor being read.
  TensorPlace place_;
  std::vector<uint64_t> offsets_;
  absl::flat_hash_set<std::string> fields_;  // known fields already seen
  uint64_t element_bytes_ = 0;               // 0: its dtype was not there yet
  bool has_shape_ = false;
};

// Sorts the places by position and checks that they cover [0, bytes).
absl::Status OrderPlaces(const std::string& path, uint64_t bytes,
                         std::vector<TensorPlace>* places) {
  std::stable_sort(places->begin(), places->end(),
                   [](const TensorPlace& a, const TensorPlace& b) { return a.begin < b.begin; });
  uint64_t position = 0;
  for (const TensorPlace& place : *places) {
    if (place.begin != position || place.end > bytes) {
      return Invalid(path, absl::StrCat("the values of ", ShownName(place.name),
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
  SafetensorsLayout layout = {.metadata = metadata, .tensors = {}};
  uint64_t offset = 0;
  for (const TensorToSave& tensor : tensors) {
    const uint64_t end = offset + tensor.bytes().size();
    layout.tensors.push_back({.name = tensor.name,
                              .shape = tensor.shape,
                              .begin = offset,
                              .end = end,
                              .dtype = tensor.dtype});
    offset = end;
  }
  return SafetensorsHead(layout, alignment);
}

std::string SafetensorsHead(const SafetensorsLayout& layout, size_t alignment) {
  STRATA_REQUIRE(alignment > 0 && alignment % 8 == 0);
  SafetensorsJson header;
  header[kMetadata] = layout.metadata;
  for (const TensorPlace& tensor : layout.tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  // Names may hold any bytes; invalid UTF-8 is replaced instead of throwing.
  std::string text = header.dump(-1, ' ', false, SafetensorsJson::error_handler_t::replace);
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
  for (const TensorToSave& tensor : tensors) pieces.push_back(tensor.bytes());
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
    // memcpy must not get a null pointer, not even for the zero bytes of an empty tensor.
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

namespace {

absl::StatusOr<SafetensorsLayout> ReadHead(absl::Span<const char> head, uint64_t file_bytes,
                                           const std::string& path, Types types) {
  STRATA_REQUIRE(head.size() >= kSafetensorsLengthBytes && head.size() <= file_bytes);
  SafetensorsLayout layout;
  HeadReader reader(types, &layout);
  if (!SafetensorsJson::sax_parse(head.data() + kSafetensorsLengthBytes, head.data() + head.size(),
                                  &reader)) {
    return Invalid(path, reader.fault());
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const TensorPlace& place : layout.tensors) {
    if (names.insert(place.name).second) continue;
    return Invalid(path, absl::StrCat("tensor ", ShownName(place.name), " is there twice"));
  }
  absl::Status ordered = OrderPlaces(path, file_bytes - head.size(), &layout.tensors);
  return ordered.ok() ? absl::StatusOr<SafetensorsLayout>(std::move(layout)) : ordered;
}

absl::StatusOr<ModelView> View(absl::Span<const char> content, const std::string& path,
                               Types types) {
  const absl::StatusOr<uint64_t> head = SafetensorsHeadBytes(content, content.size(), path);
  if (!head.ok()) return head.status();
  absl::StatusOr<SafetensorsLayout> layout =
      ReadHead(content.subspan(0, *head), content.size(), path, types);
  if (!layout.ok()) return layout.status();
  ModelView model = {.metadata = std::move(layout->metadata)};
  const absl::Span<const char> values = content.subspan(*head);
  for (TensorPlace& place : layout->tensors) {
    model.tensors.push_back({std::move(place.name), std::move(place.shape),
                             values.subspan(place.begin, place.end - place.begin),
                             std::move(place.dtype)});
  }
  return model;
}

}  // namespace

absl::StatusOr<SafetensorsLayout> ReadSafetensorsHead(absl::Span<const char> head,
                                                      uint64_t file_bytes,
                                                      const std::string& path) {
  return ReadHead(head, file_bytes, path, Types::kFp32);
}

absl::StatusOr<ModelView> ViewSafetensors(absl::Span<const char> content, const std::string& path) {
  return View(content, path, Types::kFp32);
}

absl::StatusOr<ModelView> ViewSafetensorsOfAnyType(absl::Span<const char> content,
                                                   const std::string& path) {
  return View(content, path, Types::kAny);
}

}  // namespace strata
