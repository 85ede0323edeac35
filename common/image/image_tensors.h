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

  // Returns all of it, as WriteFileAtomically takes it; valid as long as this is.
  std::vector<absl::Span<const char>> Pieces() const&;
  std::vector<absl::Span<const char>> Pieces() const&& = delete;
};

// Puts a file of images together.
class ImageWriter {
 public:
  // `format`: the word under "format" in the metadata.
  explicit ImageWriter(const std::string& format) { metadata_["format"] = format; }

  // REQUIRES: no two of one name.
  void AddText(const std::string& name, const std::string& text);
  void AddFloats(const std::string& name, const Bytes& values);  // fp32
  ImageFile Finish();

 private:
  std::map<std::string, std::string> metadata_;
  std::vector<TensorToSave> tensors_;
  ImageFile file_;
};

// Takes a file of images apart. Errors are InvalidArgument and name the file.
class ImageReader {
 public:
  // `path` outlives it.
  explicit ImageReader(const std::string& path) : path_(path) {}

  // Reads a file, which must be of the format, whose floats are finite and lie where fp32 may.
  absl::Status Open(const Bytes& content, const std::string& format);
  // The same in parts, for one that is not in memory as a whole: the metadata, and then the floats.
  absl::Status SetTexts(std::map<std::string, std::string> metadata, const std::string& format);
  absl::Status AddFloats(const std::string& name, const Bytes& values);
  // The texts of the metadata, by name, but for the format.
  const std::map<std::string, std::string>& texts() const { return texts_; }
  // Returns floats, which are then none of those that are left; empty: they are not there. They are
  // part of the content, and keep it alive.
  Bytes TakeFloats(const std::string& name);
  // Checks that everything has been taken. Errors: names what has not.
  absl::Status ExpectAllTaken() const;
  // The floats lie where no fp32 may lie.
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
