#ifndef STRATA_COMMON_IMAGE_SAFETENSORS_H_
#define STRATA_COMMON_IMAGE_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace strata {

// JSON in checkpoints is nested less deeply, and has fewer values.
inline constexpr size_t kJsonDepthMax = 8;
inline constexpr size_t kJsonValuesMax = 1 << 20;

// Returns whether untrusted JSON is small enough to be parsed: a parser takes up to 36 bytes of
// memory per byte of a text such as "[[[[" or "[],[],". Text that is not JSON may be within the
// limits.
inline bool IsWithinJsonBounds(absl::string_view text) {
  size_t depth = 0, values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (c == ',' || c == '[' || c == '{') ++values;
    if (depth > kJsonDepthMax || values > kJsonValuesMax) return false;
  }
  return true;
}

// Returns an untrusted name in printable form, on one line and truncated.
inline std::string ShownName(absl::string_view name) {
  constexpr size_t kShownMax = 200;
  if (name.size() <= kShownMax) return absl::Utf8SafeCHexEscape(name);
  return absl::StrCat(absl::CHexEscape(name.substr(0, kShownMax)), "...");
}

// The safetensors format (github.com/huggingface/safetensors): the header's length in 8 bytes,
// little-endian; the header, JSON; the tensors' values back to back.

struct TensorToSave {
  std::string name;
  std::vector<uint64_t> shape;
  absl::Span<const float> values;  // as many as the shape says
  // A tensor that is not fp32 has its type here, its values' bytes in `other`, and no `values`.
  std::string dtype = "F32";
  absl::Span<const char> other = {};

  absl::Span<const char> bytes() const {
    if (!other.empty()) return other;
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};

struct SavedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

struct SavedModel {
  std::map<std::string, std::string> metadata;
  std::vector<SavedTensor> tensors;  // in the order of their values in the file
};

// A tensor whose values are in the parsed content, where they may be unaligned.
struct TensorView {
  std::string name;
  std::vector<uint64_t> shape;
  absl::Span<const char> values;  // as many as the shape says
  std::string dtype = "F32";      // see ViewSafetensorsOfAnyType
};

struct ModelView {
  std::map<std::string, std::string> metadata;
  std::vector<TensorView> tensors;  // in the order of their values in the content
};

// The position of one tensor's values, counted from the end of the head.
struct TensorPlace {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;
  std::string dtype = "F32";
};

struct SafetensorsLayout {
  std::map<std::string, std::string> metadata;
  std::vector<TensorPlace> tensors;  // in the order of their values, without gaps
};

// This many bytes at a file's beginning hold the head's length.
inline constexpr size_t kSafetensorsLengthBytes = 8;
// Returns that length, for a file of `file_bytes`. Errors: as ParseSafetensors. REQUIRES:
// `beginning` has those bytes, or is the whole file.
absl::StatusOr<uint64_t> SafetensorsHeadBytes(absl::Span<const char> beginning, uint64_t file_bytes,
                                              const std::string& path);
// Reads the head of a file of `file_bytes`. Errors: as ParseSafetensors.
absl::StatusOr<SafetensorsLayout> ReadSafetensorsHead(absl::Span<const char> head,
                                                      uint64_t file_bytes, const std::string& path);

// Returns the file's beginning, which the values of the tensors follow in order. Its size is a
// multiple of `alignment`, which is a multiple of 8.
std::string SafetensorsHead(const std::map<std::string, std::string>& metadata,
                            absl::Span<const TensorToSave> tensors, size_t alignment = 8);
// The same for values that are written to their places.
std::string SafetensorsHead(const SafetensorsLayout& layout, size_t alignment = 8);

// Writes fp32 tensors in the given order; readers see the whole file or none. Errors name the path:
// those of WriteFileAtomically.
absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, std::string>& metadata,
                              absl::Span<const TensorToSave> tensors);

// Reads a file of fp32 tensors. Errors name the path: those of ReadFile; InvalidArgument (not a
// safetensors file, another dtype, values that do not fit the shapes or leave gaps).
absl::StatusOr<SavedModel> ReadSafetensors(const std::string& path);

// Reads a file's content instead; errors name `path`.
absl::StatusOr<SavedModel> ParseSafetensors(absl::Span<const char> content,
                                            const std::string& path);
// Copies no values: `content` outlives the result.
absl::StatusOr<ModelView> ViewSafetensors(absl::Span<const char> content, const std::string& path);
// Likewise, but tensors may be of any type of the format: "F64", "BF16", "U8".
absl::StatusOr<ModelView> ViewSafetensorsOfAnyType(absl::Span<const char> content,
                                                   const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_SAFETENSORS_H_
