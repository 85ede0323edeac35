#ifndef STRATA_COMMON_IMAGE_IMAGE_STREAM_H_
#define STRATA_COMMON_IMAGE_IMAGE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/image/chunk_image.h"
#include "common/image/image_tensors.h"
#include "common/image/safetensors.h"

namespace strata {

// Takes a file of chunks' images apart while it is being read, so that it need not be in memory as
// a whole: what is complete is handed on, with memory of its own. Files, images and errors are
// those of ParseImageFile; but a fault may show after images before it have been handed on.
//
// Threads: one.
class ImageStream {
 public:
  // `bytes`: of the whole file.
  ImageStream(uint64_t bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  // Takes the file's next bytes, and adds the images that are complete now. Errors:
  // InvalidArgument, ResourceExhausted (no memory). REQUIRES: no more than the whole file, none
  // after an error.
  absl::Status Take(absl::Span<const char> bytes, std::vector<ChunkImage>* images);
  // The file has ended. Errors: InvalidArgument.
  absl::Status Finish();

 private:
  // One that is being read.
  struct Image {
    std::string counts;
    size_t tensors = 0;  // that the file has of it
    std::vector<std::pair<std::string, Bytes>> floats;
  };

  // Adds to the head; once it is whole, reads it.
  absl::Status TakeHead(absl::Span<const char>* bytes);
  absl::Status ReadHead();
  // Adds to the values of the next tensor.
  absl::Status TakeValues(absl::Span<const char>* bytes, std::vector<ChunkImage>* images);
  absl::Status Complete(const TensorPlace& tensor, std::vector<ChunkImage>* images);

  const uint64_t bytes_;
  const std::string path_;
  uint64_t taken_ = 0;
  std::string head_;
  uint64_t head_bytes_ = 0;  // 0: not known yet
  bool has_layout_ = false;
  std::vector<TensorPlace> tensors_;
  size_t next_ = 0;  // of those
  std::shared_ptr<std::byte> values_;
  uint64_t filled_ = 0;
  std::map<std::string, Image> images_;                // by their name in the file
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // begin and elements of what was handed on
};

}  // namespace strata

#endif  // STRATA_COMMON_IMAGE_IMAGE_STREAM_H_
