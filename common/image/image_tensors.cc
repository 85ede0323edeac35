#include "common/image/image_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/image/safetensors.h"
#include "common/os/direct_file.h"
#include "common/require.h"

namespace strata {
namespace {

constexpr char kFormat[] = "format";

}  // namespace

std::vector<absl::Span<const char>> ImageFile::Pieces() const& {
  std::vector<absl::Span<const char>> pieces = {head};
  for (const Bytes& one : values) {
    pieces.emplace_back(reinterpret_cast<const char*>(one.data()), one.size());
  }
  return pieces;
}

void ImageWriter::AddText(const std::string& name, const std::string& text) {
  const bool is_new = metadata_.emplace(name, text).second;
  STRATA_REQUIRE(is_new);
}

void ImageWriter::AddFloats(const std::string& name, const Bytes& values) {
  tensors_.push_back({name, {values.float_count()}, {values.floats(), values.float_count()}});
  file_.values.push_back(values);
}

ImageFile ImageWriter::Finish() {
  // Values of a large file are placed so that it can be written from memory in place.
  size_t bytes = 0;
  for (const Bytes& one : file_.values) bytes += one.size();
  const size_t alignment = bytes < kDirectBytesMin ? sizeof(uint64_t) : kDirectAlignment;
  file_.head = SafetensorsHead(metadata_, tensors_, alignment);
  return std::move(file_);
}

absl::Status ImageReader::Open(const Bytes& content, const std::string& format) {
  const char* const text = reinterpret_cast<const char*>(content.data());
  absl::StatusOr<ModelView> file = ViewSafetensors({text, content.size()}, path_);
  if (!file.ok()) return file.status();
  absl::Status status = SetTexts(std::move(file->metadata), format);
  for (size_t i = 0; status.ok() && i < file->tensors.size(); ++i) {
    const TensorView& tensor = file->tensors[i];
    status = AddFloats(tensor.name, content.Part(static_cast<size_t>(tensor.values.data() - text),
                                                 tensor.values.size()));
  }
  return status;
}

absl::Status ImageReader::SetTexts(std::map<std::string, std::string> metadata,
                                   const std::string& format) {
  texts_ = std::move(metadata);
  const auto found = texts_.find(kFormat);
  if (found == texts_.end() || found->second != format) {
    return Wrong(kFormat, absl::StrCat("is not ", format));
  }
  texts_.erase(found);
  return absl::OkStatus();
}

absl::Status ImageReader::AddFloats(const std::string& name, const Bytes& values) {
  if (reinterpret_cast<uintptr_t>(values.data()) % sizeof(float) != 0) return Misplaced(name);
  const float* const floats = values.floats();
  if (!std::all_of(floats, floats + values.float_count(),
                   [](float x) { return std::isfinite(x); })) {
    return Wrong(name, "holds NaN or infinity");
  }
  if (!floats_.emplace(name, values).second) return Wrong(name, "is there twice");
  return absl::OkStatus();
}

absl::Status ImageReader::Misplaced(const std::string& name) const {
  return Wrong(name, "lies at an address where no fp32 may lie");
}

Bytes ImageReader::TakeFloats(const std::string& name) {
  const auto found = floats_.find(name);
  if (found == floats_.end()) return Bytes();
  Bytes values = std::move(found->second);
  floats_.erase(found);
  return values;
}

absl::Status ImageReader::ExpectAllTaken() const {
  if (floats_.empty()) return absl::OkStatus();
  return Wrong(floats_.begin()->first, "belongs to no image");
}

absl::Status ImageReader::Wrong(const std::string& what, const std::string& why) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": ", ShownName(what), " ", why));
}

}  // namespace strata
