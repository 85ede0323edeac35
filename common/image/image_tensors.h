#ifndef STRATA_COMMON_IMAGE_IMAGE_TENSORS_H_
#define STRATA_COMMON_IMAGE_IMAGE_TENSORS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/image/safetensors.h"

namespace strata {

// A file's content in pieces, in order.
struct ImageFile {
  std::string head;
  std::vector<Bytes> values;

  // Returns all pieces, as WriteFileAtomically takes them; valid as long as this object.
  std::vector<absl::Span<const char>> Pieces() const&;
  std::vector<absl::Span<const char>> Pieces() const&& = delete;
};

// Assembles a file of images.
class ImageWriter {
 public:
  // `format`: the value of "format" in the metadata.
  explicit ImageWriter(const std::string& format) { metadata_["format"] = format; }

  // REQUIRES: unique names.
  void AddText(const std::string& name, const std::string& text);
  void AddFloats(const std::string& name, const Bytes& values);  // fp32
  ImageFile Finish();

 private:
  std::map<std::string, std::string> metadata_;
  std::vector<TensorToSave> tensors_;
  ImageFile file_;
};

// Parses a file of images. Errors are InvalidArgument and name the file.
class ImageReader {
 public:
  // `path` outlives it.
  explicit ImageReader(const std::string& path) : path_(path) {}

  // Reads a file, which must have the format, and finite, aligned floats.
  absl::Status Open(const Bytes& content, const std::string& format);
  // The same in parts, for a file that is not in memory as a whole: the metadata, and then the
  // floats.
  absl::Status SetTexts(std::map<std::string, std::string> metadata, const std::string& format);
  absl::Status AddFloats(const std::string& name, const Bytes& values);
  // The texts of the metadata, by name, without the format.
  const std::map<std::string, std::string>& texts() const { return texts_; }
  // Returns floats and removes them from the remaining ones; empty: they do not exist. They are
  // part of the content, and keep it alive.
  Bytes TakeFloats(const std::string& name);
  // Checks that everything has been taken. Errors name what has not.
  absl::Status ExpectAllTaken() const;
  // Returns the error for misaligned floats.
  absl::Status Misplaced(const std::string& name) const;
  // "PATH: WHAT WHY".
  absl::Status Wrong(const std::string& what, const std::string& why) const;

 private:
  const std::string& path_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, Bytes> floats_;
};

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_IMAGE_TENSORS_H_
